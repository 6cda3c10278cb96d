// The named formats, and the one parser of format names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "float_format.h"

namespace apscope {

struct NamedFormat {
    std::string_view name;     // canonical, as printed by FloatFormat::name()
    std::string_view aliases;  // separated by spaces; from ml_dtypes, torch, ONNX, LLVM and P3109
    std::string_view origin;   // the organisation that defines the format
    FloatFormat format;
};

std::span<const NamedFormat> named_formats();

// Reads a name of the table (or a spelling of core/typed_names.h), a P3109 name or the general form
//
//   e<E>m<M> [fn|fnuz|finite] [u] [b<bias>] [nosub | sub<exponent>] [zero1|zero0]
//            [nan<count>] [inf|noinf] [nannz] [eventies]
//
// (no spaces; b takes a sign, b-3). Throws std::invalid_argument for an unknown or an ambiguous
// name, naming the candidates.
FloatFormat parse_format(std::string_view name);

}  // namespace apscope
