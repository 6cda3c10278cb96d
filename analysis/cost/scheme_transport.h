// The transport of a scheme's rows in a table.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "emulation/schemes/definition.h"

namespace apscope::detail {

// The transport of the rows with these columns `format` and `topology`. For a policy it is that of
// the first branch with the format. A scheme that another process made, which is unknown here, has
// none.
Transport transport_of(std::string_view spec, std::string_view grid, std::string_view topology,
                       const MadeSchemes* made = nullptr);

using TransportOf = std::function<Transport(const std::string& spec, const std::string& grid,
                                            const std::string& topology)>;
// A transport_of() that parses each scheme only once. `made` must outlive it.
TransportOf transports(const MadeSchemes* made = nullptr);

}  // namespace apscope::detail
