#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "core/block_format.h"
#include "core/codec.h"
#include "core/named_formats.h"
#include "tests/fuzz/format_bytes.h"
#include "tests/fuzz/targets.h"

namespace apscope::detail::fuzz {
namespace {

// Checks that the code of a code's value is the code itself, or another code of the same number or
// of a NaN.
void code_round_trips(const FloatFormat& f, std::uint64_t code) {
    const auto codec = make_codec<double>(f);
    const double value = decode_one<double>(code, codec);
    if (std::isnan(value))
        return require(f.has_nan(),
                       f.name() + " has no NaN, but code " + std::to_string(code) + " is one");
    require(std::isfinite(value) || f.has_infinity,
            f.name() + " has no infinity, but code " + std::to_string(code) + " is one");
    require(!std::isfinite(value) || std::abs(value) <= f.largest(),
            f.name() + " has a value beyond its largest");
    const double again = decode_one<double>(encode_one<double>(value, codec), codec);
    require(again == value, f.name() + " gives another value to the code of the value of code " +
                                std::to_string(code));
}

void of_format(const FloatFormat& f, ByteReader& bytes) {
    const std::string name = f.name();
    require(parse_format(name) == f, "'" + name + "' is another format when it is read again");
    require(f.hash() == parse_format(name).hash(),
            "'" + name + "' has another hash when it is read again");
    require(f.smallest_positive() > 0 && f.smallest_positive() <= f.largest() &&
                std::isfinite(f.largest()),
            name + " has no order of values");
    const double normal = f.smallest_normal();
    require(normal == 0 || (normal >= f.smallest_positive() && normal <= f.largest()),
            name + " has a smallest normal number outside its values");
    require(f.emax() == std::ilogb(f.largest()), name + " has another emax than its largest value");
    require(std::ldexp(1.0, f.finest_exponent()) <= f.smallest_positive(),
            name + " has a value below its quantum");
    const std::uint64_t codes =
        f.storage_bits() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << f.storage_bits()) - 1;
    for (const std::uint64_t code : {std::uint64_t{0}, std::uint64_t{1}, f.top_finite_code(), codes,
                                     bytes.take<std::uint64_t>(), bytes.take<std::uint64_t>()})
        code_round_trips(f, code & codes);
}

void of_block_format(const BlockFormat& f, double amax) {
    const std::string name = f.name();
    require(parse_block_format(name) == f,
            "'" + name + "' is another block format when it is read again");
    require(f.hash() == parse_block_format(name).hash(),
            "'" + name + "' has another hash when it is read again");
    require(f.bits_per_element() > f.element.storage_bits(),
            name + " has elements without a share of a scale");
    if (f.rule == ScaleRule::ratio || !std::isfinite(amax) || amax <= 0) return;
    const int k = scale_exponent(f, amax);
    require(std::ldexp(1.0, k) >= f.scale.smallest_positive() && k <= f.scale.emax(),
            name + " takes a scale that its format does not have");
}

}  // namespace

void formats(Bytes input) {
    ByteReader bytes(input);
    const std::string_view name = bytes.line();
    FloatFormat f, scale;
    // A name, else the fields; a format that is accepted by its name must be valid.
    if (taken([&] { f = parse_format(name); })) {
        require(taken([&] { validate(f); }), "'" + std::string(name) + "' is taken, but not valid");
        of_format(f, bytes);
    }
    if (taken([&] { validate(f = format_of(bytes)); })) of_format(f, bytes);
    BlockFormat blocks;
    if (taken([&] { blocks = parse_block_format(name); })) {
        require(taken([&] { validate(blocks); }),
                "'" + std::string(name) + "' is taken, but not valid");
        of_block_format(blocks, bytes.take<double>());
    }
    if (taken([&] { validate(blocks = block_format_of(f, bytes)); }))
        of_block_format(blocks, bytes.take<double>());
}

}  // namespace apscope::detail::fuzz
