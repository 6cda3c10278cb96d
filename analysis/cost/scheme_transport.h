// The transport of a scheme's rows in a table.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "emulation/schemes/definition.h"

namespace apscope::detail {

// The transport of a scheme's rows whose columns `format` and `topology` are `grid` and `topology`.
// For a policy it is the transport of the first branch with this format. For a scheme that another
// process made, and that is unknown here, it is an empty Transport.
Transport transport_of(std::string_view spec, std::string_view grid, std::string_view topology,
                       const MadeSchemes* made = nullptr);

using TransportOf = std::function<Transport(const std::string& spec, const std::string& grid,
                                            const std::string& topology)>;
// A transport_of() that parses each scheme only once. `made` must outlive the function.
TransportOf transports(const MadeSchemes* made = nullptr);

}  // namespace apscope::detail
