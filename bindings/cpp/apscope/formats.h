// Number systems as values: FloatFormat, Projection and BlockFormat, and their names.
#pragma once

#include <iosfwd>
#include <string_view>
#include <type_traits>

#include "core/block_format.h"
#include "core/float_format.h"
#include "core/format_rules.h"
#include "core/named_formats.h"
#include "core/projection.h"
#include "export.h"

namespace apscope {

/// @addtogroup formats Formats
/// @{

/// The format with this name.
///
/// @param name  A name of the table (`bf16`, `float8_e4m3fn`, ...; `apscope formats` prints it), a
///              P3109 name (`binary8p3se`) or the general form `e<E>m<M>` with suffixes, such as
///              `e4m3fn` or `e5m10b20`.
/// A constant expression for a name of the table, of P3109 or of the general form in its exact
/// spelling: `constexpr auto e4m3fn = apscope::format("e4m3fn");`. There a wrong name does not
/// compile.
///
/// @throws apscope::error  The name is unknown or ambiguous; the message names the candidates.
[[nodiscard]] constexpr FloatFormat format(std::string_view name) {
    return std::is_constant_evaluated() ? detail::constant_format(name) : parse_format(name);
}

/// The block format with this name: `mxfp8_e4m3`, `nvfp4`, `bfp:<bits>:<block>` or
/// `blocks:<element>`, each followed by any of
/// `,scale=<format> ,block=<size> ,rule=<rule> ,tensor`.
///
/// @throws std::invalid_argument  There is no such block format.
[[nodiscard]] inline BlockFormat block_format(std::string_view name) {
    return parse_block_format(name);
}

/// Prints the name, which format(), block_format() or parse_rounding() and its like read.
APSCOPE_API std::ostream& operator<<(std::ostream& out, const FloatFormat& format);
APSCOPE_API std::ostream& operator<<(std::ostream& out, const BlockFormat& format);
APSCOPE_API std::ostream& operator<<(std::ostream& out, RoundingMode mode);
APSCOPE_API std::ostream& operator<<(std::ostream& out, Overflow overflow);
APSCOPE_API std::ostream& operator<<(std::ostream& out, Underflow underflow);
APSCOPE_API std::ostream& operator<<(std::ostream& out, ScaleRule rule);
APSCOPE_API std::ostream& operator<<(std::ostream& out, BlockNonfinite rule);

/// @}

}  // namespace apscope
