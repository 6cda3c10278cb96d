// The edge of the library: what its folders throw leaves it as apscope::error.
#pragma once

namespace apscope::detail {

// Ends the handler `catch (...)` of a public function: throws the caught exception, a refusal or a
// file's error of the system as apscope::error. What a caller's own function threw passes as it is.
[[noreturn]] void throw_error();

}  // namespace apscope::detail
