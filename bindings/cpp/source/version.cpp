#include <apscope/version.h>

namespace apscope {

std::string_view version() { return APSCOPE_VERSION; }

}  // namespace apscope
