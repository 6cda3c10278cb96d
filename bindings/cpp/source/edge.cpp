#include "bindings/cpp/source/edge.h"

#include <stdexcept>
#include <system_error>
#include <typeinfo>

#include "core/error.h"

namespace apscope {

void detail::throw_error() {
    try {
        throw;
    } catch (const CallersException& callers) {
        std::rethrow_exception(callers.thrown);
    } catch (const std::invalid_argument& refusal) {
        if (typeid(refusal) != typeid(std::invalid_argument)) throw;
        throw error(refusal.what());
    } catch (const std::system_error& failed) {
        if (failed.code() == std::errc::no_such_file_or_directory)
            throw error(failed.what(), ErrorKind::missing_file);
        if (failed.code() == std::errc::permission_denied || failed.code() == std::errc::io_error)
            throw error(failed.what(), ErrorKind::unreadable_file);
        throw;
    }
}

}  // namespace apscope
