#include "core/block_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/error.h"
#include "core/limits.h"
#include "core/named_formats.h"
#include "core/parse.h"
#include "core/typed_names.h"

namespace apscope {

namespace {

constexpr std::array<std::string_view, scale_rule_count> rule_names = {"floor", "ceil",    "rceil",
                                                                       "even",  "nearest", "ratio"};
constexpr std::array<std::string_view, block_nonfinite_count> nonfinite_names = {
    "apart", "torchao", "torchao_0.18", "transformer_engine"};
constexpr int largest_block = 1 << 30;

[[noreturn]] void refuse(const std::string& sentence) { throw error(sentence); }

const FloatFormat& e8m0() {
    static const FloatFormat format = make_format(8, 0, Specials::e8m0);
    return format;
}

BlockFormat microscaling(const FloatFormat& element, bool twos_complement = false) {
    return {element, twos_complement, e8m0(), 32, ScaleRule::floor, false};
}

const std::vector<NamedBlockFormat>& table() {
    static const std::vector<NamedBlockFormat> formats = {
        {"mxfp8_e4m3", "OCP MX", microscaling(make_format(4, 3, Specials::fn))},
        {"mxfp8_e5m2", "OCP MX", microscaling(make_format(5, 2))},
        {"mxfp6_e3m2", "OCP MX", microscaling(make_format(3, 2, Specials::finite))},
        {"mxfp6_e2m3", "OCP MX", microscaling(make_format(2, 3, Specials::finite))},
        {"mxfp4", "OCP MX", microscaling(make_format(2, 1, Specials::finite))},
        {"mxint8", "OCP MX", microscaling(fixed_point_element(8, true), true)},
        {"nvfp4",
         "NVIDIA",
         {make_format(2, 1, Specials::finite), false, make_format(4, 3, Specials::fn), 16,
          ScaleRule::ratio, true}},
    };
    return formats;
}

bool is_bfp(const BlockFormat& f) {
    return !f.twos_complement && !f.tensor_scale && f.scale == e8m0() && f.element.is_signed &&
           f.element == fixed_point_element(f.element.storage_bits(), false);
}

[[noreturn]] void refuse_name(std::string_view name) {
    const std::string_view base = name.substr(0, name.find(','));
    if (const std::string meant = detail::block_formats_meant(base); !meant.empty())
        refuse("unknown block format '" + detail::limits::clipped(name) + "'" + meant);
    std::string known;
    for (const NamedBlockFormat& row : table()) known += std::string(row.name) + ", ";
    refuse("unknown block format '" + detail::limits::clipped(name) + "'; use " + known +
           "bfp:<bits>:<block> or blocks:<element>, followed by ,scale=<format> ,block=<size> "
           ",rule=<rule> ,nonfinite=<rule> ,tensor");
}

// Reads `base`, the text of `name` before the first comma.
BlockFormat parse_base(std::string_view base, std::string_view name) {
    for (const NamedBlockFormat& row : table()) {
        if (row.name == base || detail::folded(row.name) == detail::folded(base)) return row.format;
    }
    if (base.starts_with("bfp:")) {
        const std::string_view rest = base.substr(4);
        const std::size_t colon = rest.find(':');
        if (colon == std::string_view::npos) refuse_name(name);
        const std::optional<int> bits = detail::parse_number<int>(rest.substr(0, colon)),
                                 block = detail::parse_number<int>(rest.substr(colon + 1));
        if (!bits || !block) refuse_name(name);
        BlockFormat f = microscaling(fixed_point_element(*bits, false));
        f.block_size = *block;
        return f;
    }
    if (base.starts_with("blocks:")) {
        const std::string_view element = base.substr(7);
        if (element.starts_with("int")) {
            const std::optional<int> bits = detail::parse_number<int>(element.substr(3));
            if (!bits) refuse_name(name);
            return microscaling(fixed_point_element(*bits, true), true);
        }
        return microscaling(parse_format(element));
    }
    refuse_name(name);
}

}  // namespace

std::string_view to_string(ScaleRule rule) { return rule_names[static_cast<std::size_t>(rule)]; }

ScaleRule parse_scale_rule(std::string_view name) {
    for (std::size_t i = 0; i < rule_names.size(); ++i) {
        if (rule_names[i] == name) return static_cast<ScaleRule>(i);
    }
    refuse("unknown scale rule '" + detail::limits::clipped(name) +
           "'; use one of floor, ceil, rceil, even, nearest, ratio");
}

std::string_view to_string(BlockNonfinite rule) {
    return nonfinite_names[static_cast<std::size_t>(rule)];
}

BlockNonfinite parse_block_nonfinite(std::string_view name) {
    for (std::size_t i = 0; i < nonfinite_names.size(); ++i) {
        if (nonfinite_names[i] == name) return static_cast<BlockNonfinite>(i);
    }
    refuse("unknown rule for non-finite elements '" + detail::limits::clipped(name) +
           "'; use one of apart, torchao, torchao_0.18, transformer_engine");
}

std::span<const NamedBlockFormat> named_block_formats() { return table(); }

FloatFormat fixed_point_element(int bits, bool twos_complement) {
    if (bits < 2 || bits > 8) {
        refuse("block elements of " + std::to_string(bits) +
               " bits do not exist; use 2 to 8, including the sign");
    }
    // Without exponent bits, the magnitudes are 0 .. 2^(bits-1) - 1 in units of 2^-(bits-2).
    FloatFormat f = make_format(0, bits - 1, Specials::finite);
    if (twos_complement) f.zero = Zero::single;
    return f;
}

int BlockFormat::top_mantissa_bits() const {
    const int emax = element.emax();
    const int min_exponent = element.subnormals ? element.subnormal_exponent : element.emin();
    return emax - (std::max(emax, min_exponent) - element.mantissa_bits);
}

double BlockFormat::bits_per_element() const {
    return element.storage_bits() + static_cast<double>(scale.storage_bits()) / block_size;
}

namespace {

// The smallest fp64 number that is not below the square root of x; x is in [1, 4) and has few
// significant bits.
double root_upward(double x) {
    const double root = std::sqrt(x);
    return std::fma(root, root, -x) < 0 ? std::nextafter(root, 2.0) : root;
}

}  // namespace

ScaleStep scale_step(const BlockFormat& f) {
    const double top = std::ldexp(f.element.largest(), -f.element.emax());  // in [1, 2)
    switch (f.rule) {
        case ScaleRule::floor:
        case ScaleRule::ratio: break;
        case ScaleRule::ceil: return {0, std::nextafter(1.0, 2.0)};
        case ScaleRule::rceil: return {0, std::nextafter(top, 2.0)};
        // The midpoint between the last value of a binade and the next binade rounds up, because
        // the last significand is odd.
        case ScaleRule::even: return {0, 2 - std::ldexp(1.0, -f.top_mantissa_bits() - 1)};
        // k increases by one at fraction / top = 2^(1/2). If the fraction would be 2 or more there,
        // k increases already at fraction / top = 2^(-1/2), and the base is lower by one.
        case ScaleRule::nearest:
            return top * top > 2 ? ScaleStep{-1, root_upward(top * top / 2)}
                                 : ScaleStep{0, root_upward(top * top * 2)};
    }
    return {0, 2};
}

int scale_exponent(const BlockFormat& f, double amax) {
    int exponent;  // amax = fraction * 2^(exponent - 1), fraction in [1, 2)
    const double fraction = 2 * std::frexp(amax, &exponent);
    const ScaleStep step = scale_step(f);
    const int k = exponent - 1 - f.element.emax() + step.base + (fraction >= step.from);
    return std::clamp(k, std::ilogb(f.scale.smallest_positive()), f.scale.emax());
}

std::string BlockFormat::name() const {
    BlockFormat base = *this;
    std::string text;
    for (const NamedBlockFormat& row : table()) {
        BlockFormat candidate = row.format;
        candidate.block_size = block_size;
        candidate.rule = rule;
        candidate.nonfinite = nonfinite;
        if (candidate != *this) continue;
        text = row.name;
        base = row.format;
    }
    if (text.empty() && is_bfp(*this)) {
        text = "bfp:" + std::to_string(element.storage_bits()) + ":" + std::to_string(block_size);
        base.rule = ScaleRule::floor;
        base.nonfinite = BlockNonfinite::apart;
    } else if (text.empty()) {
        text = "blocks:" +
               (twos_complement ? "int" + std::to_string(element.storage_bits()) : element.name());
        base = microscaling(element, twos_complement);
    }
    if (scale != base.scale) text += ",scale=" + scale.name();
    if (block_size != base.block_size) text += ",block=" + std::to_string(block_size);
    if (rule != base.rule) text += ",rule=" + std::string(to_string(rule));
    if (nonfinite != base.nonfinite) text += ",nonfinite=" + std::string(to_string(nonfinite));
    if (tensor_scale != base.tensor_scale) text += ",tensor";
    return text;
}

std::size_t BlockFormat::hash() const {
    std::size_t h = element.hash();
    for (const std::size_t field :
         {scale.hash(), static_cast<std::size_t>(twos_complement),
          static_cast<std::size_t>(block_size), static_cast<std::size_t>(rule),
          static_cast<std::size_t>(tensor_scale), static_cast<std::size_t>(nonfinite)}) {
        h = (h ^ field) * 1099511628211ull;
    }
    return h;
}

BlockFormat parse_block_format(std::string_view text) {
    // In the spec of a scheme, / stands for the comma of a name.
    std::string plain(text);
    std::replace(plain.begin(), plain.end(), '/', ',');
    const std::string_view name = plain;
    const std::size_t comma = name.find(',');
    BlockFormat f = parse_base(name.substr(0, comma), name);
    std::string_view rest =
        comma == std::string_view::npos ? std::string_view{} : name.substr(comma);
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const std::size_t end = std::min(rest.find(','), rest.size());
        const std::string_view option = rest.substr(0, end);
        rest.remove_prefix(end);
        const std::optional<int> block = option.starts_with("block=")
                                             ? detail::parse_number<int>(option.substr(6))
                                             : std::nullopt;
        if (option.starts_with("scale=")) {
            f.scale = parse_format(option.substr(6));
        } else if (block) {
            f.block_size = *block;
        } else if (option.starts_with("rule=")) {
            f.rule = parse_scale_rule(option.substr(5));
        } else if (option.starts_with("nonfinite=")) {
            f.nonfinite = parse_block_nonfinite(option.substr(10));
        } else if (option == "tensor") {
            f.tensor_scale = true;
        } else {
            refuse("block format '" + detail::limits::clipped(name) + "': '" +
                   detail::limits::clipped(option) +
                   "' is not one of scale=<format>, block=<size>, rule=<rule>, nonfinite=<rule> "
                   "and tensor");
        }
    }
    try {
        validate(f);
    } catch (const std::invalid_argument& refused) {
        refuse("block format '" + detail::limits::clipped(name) + "': " + refused.what());
    }
    return f;
}

void validate(const BlockFormat& f) {
    validate(f.element);
    validate(f.scale);
    require_fp32(f.element, "a block format");
    require_fp32(f.scale, "a block format");
    if (f.block_size < 1 || f.block_size > largest_block) {
        refuse("block_size=" + std::to_string(f.block_size) + " is not between 1 and 2^30");
    }
    if (f.element.storage_bits() > 8 || !f.element.is_signed || f.element.zero == Zero::none) {
        refuse("the element format " + f.element.name() +
               " must be signed, have a zero and at most 8 bits");
    }
    if (f.twos_complement && f.element != fixed_point_element(f.element.storage_bits(), true)) {
        refuse("twos_complement needs fixed-point elements with one zero (int2 to int8), which " +
               f.element.name() + " is not");
    }
    if (f.scale.storage_bits() > 8 || !f.scale.has_nan()) {
        refuse("the scale format " + f.scale.name() +
               " must have a NaN, for blocks with a NaN, and at most 8 bits");
    }
    if (f.rule != ScaleRule::ratio && (f.scale.mantissa_bits != 0 || f.scale.is_signed)) {
        refuse("rule='" + std::string(to_string(f.rule)) +
               "' gives powers of two and needs an unsigned scale format without mantissa bits, "
               "which " +
               f.scale.name() + " is not; use e8m0fnu, or rule='ratio'");
    }
    if (f.rule == ScaleRule::ratio && f.scale.zero == Zero::none) {
        refuse("rule='ratio' needs a scale format with a zero, for blocks of zeros, which " +
               f.scale.name() + " is not; use e4m3fn");
    }
    if (f.rule == ScaleRule::ratio &&
        (f.nonfinite == BlockNonfinite::torchao || f.nonfinite == BlockNonfinite::torchao_0_18)) {
        refuse("nonfinite='" + std::string(to_string(f.nonfinite)) +
               "' belongs to the rules that give powers of two; with rule='ratio' use apart or "
               "transformer_engine");
    }
    if (f.tensor_scale && f.rule != ScaleRule::ratio) {
        refuse("tensor_scale belongs to rule='ratio', not to rule='" +
               std::string(to_string(f.rule)) + "'");
    }
}

}  // namespace apscope
