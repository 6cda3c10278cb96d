// The edge of the library: what its folders throw leaves it as apscope::error, and what a caller's
// own function throws leaves it as it is.
#pragma once

#include <exception>
#include <utility>

namespace apscope::detail {

// An exception of a caller's function, on its way through the library.
struct CallersException {
    std::exception_ptr thrown;
};

// Calls a caller's function. throw_error() throws its exception again.
template <class Function, class... Arguments>
decltype(auto) call(const Function& function, Arguments&&... arguments) try {
    return function(std::forward<Arguments>(arguments)...);
} catch (...) {
    throw CallersException{std::current_exception()};
}

// Ends the handler `catch (...)` of a public function: throws the caught exception, a refusal or a
// file's error of the system as apscope::error, and an exception of call() as the caller threw it.
[[noreturn]] void throw_error();

}  // namespace apscope::detail
