// The schemes that this process defined with define_scheme().
#pragma once

#include "emulation/schemes/definition.h"

namespace apscope {

detail::MadeSchemes& made_schemes();

// The scheme of a spec, which may name defined schemes.
inline detail::Scheme parse_any_scheme(std::string_view spec) {
    return detail::parse_scheme(spec, &made_schemes());
}

}  // namespace apscope
