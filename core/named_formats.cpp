#include "core/named_formats.h"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/error.h"
#include "core/format_rules.h"
#include "core/format_syntax.h"
#include "core/limits.h"
#include "core/named_format_table.h"
#include "core/nearest_names.h"
#include "core/parse.h"
#include "core/typed_names.h"

namespace apscope {

namespace {

// The names and aliases of the formats in the table, in its order; each name precedes its aliases.
std::vector<std::string_view> all_names() {
    std::vector<std::string_view> names;
    for (const NamedFormat& row : named_formats()) {
        names.push_back(row.name);
        for (std::string_view rest = row.aliases; !rest.empty();) {
            const std::size_t end = rest.find(' ');
            names.push_back(rest.substr(0, end));
            rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
        }
    }
    return names;
}

using Tokens = detail::NameTokens;

// The correct spelling of a general name whose words are in another order, such as e3m4b6fn; empty
// for other names.
std::string reordered(std::string_view name) {
    Tokens t{name};
    const auto exponent_bits = t.take_number("e");
    const auto mantissa_bits = t.take_number("m");
    if (!exponent_bits || !mantissa_bits) return "";
    std::string specials, unsigned_word, bias;
    while (!t.rest.empty()) {
        if (t.take("fnuz")) specials = "fnuz";
        else if (t.take("fn")) specials = "fn";
        else if (t.take("finite")) specials = "finite";
        else if (t.take("u")) unsigned_word = "u";
        else if (const auto number = t.take_number("b")) bias = "b" + std::to_string(*number);
        else return "";
    }
    const std::string right = "e" + std::to_string(*exponent_bits) + "m" +
                              std::to_string(*mantissa_bits) + specials + unsigned_word + bias;
    return right != name && detail::read_general_name(right) ? right : "";
}

// The lower-case spelling of a general or P3109 name in capitals, such as E3M4FN; empty for other
// names.
std::string general_in_capitals(std::string_view name) {
    const std::string lower = detail::folded(name);
    const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
    const bool in_capitals =
        name.size() <= 64 && lower.size() == name.size() && std::ranges::any_of(name, is_capital);
    const bool is_name = detail::read_general_name(lower) || detail::read_p3109_name(lower);
    return in_capitals && is_name ? lower : "";
}

FloatFormat cfloat8(int exponent_bits, int bias) {
    FloatFormat f =
        with_bias(make_format(exponent_bits, 7 - exponent_bits, Specials::finite), bias);
    f.subnormal_exponent = -bias;
    return f;
}

// Parses names of families with arguments: Tesla's configurable formats, with the bias as argument,
// and QPyTorch's (exponent, mantissa) pairs. Neither family has infinities or NaN.
std::optional<FloatFormat> parse_family(std::string_view name) {
    Tokens t{name};
    for (const auto& [word, exponent_bits] :
         {std::pair{"cfloat8_143", 4}, std::pair{"cfloat8_152", 5}}) {
        if (!t.take(word)) continue;
        const auto bias = t.take_number("b");
        if (!bias || *bias < 0 || *bias > 63 || !t.rest.empty()) {
            throw error("the format name '" + detail::limits::clipped(name) +
                        "' needs its bias, 0 to 63, as in " + word + "b7");
        }
        return cfloat8(exponent_bits, *bias);
    }
    if (!t.take("qpytorch_")) return std::nullopt;
    const auto exponent_bits = t.take_number("e");
    const auto mantissa_bits = t.take_number("m");
    if (!exponent_bits || !mantissa_bits || !t.rest.empty()) return std::nullopt;
    return make_format(*exponent_bits, *mantissa_bits, Specials::finite);
}

// Refuses a name of the general form in which a reader may expect another format of the table.
void refuse_usual_bias(std::string_view name, const FloatFormat& f) {
    if (!detail::has_needless_bias(name, f)) return;
    const std::string_view plain = name.substr(0, name.rfind('b'));
    const FloatFormat other = parse_format(plain);
    const auto described = [](const FloatFormat& g) {
        const std::uint64_t codes = g.nan_codes + (g.nan_at_negative_zero ? 1 : 0);
        return (codes == 0 ? std::string("no NaN") : "a NaN") +
               (g.zero == Zero::none ? ", no zero" : "") + ", largest value " +
               detail::shortest(g.largest());
    };
    throw error("'" + std::string(name) + "' and '" + std::string(plain) +
                "' would be two formats: write " + f.name() + " (" + described(f) + ") or " +
                other.name() + " (" + described(other) + ")");
}

// The shortest name of `f` in the general form (see parse_format), over the families of special
// values; names that the table gives to another format are skipped.
std::string general_name(const FloatFormat& f) {
    std::string best;
    constexpr std::array<std::pair<Specials, std::string_view>, 4> families = {
        {{Specials::ieee, ""},
         {Specials::finite, "finite"},
         {Specials::fn, "fn"},
         {Specials::fnuz, "fnuz"}}};
    for (const auto& [specials, suffix] : families) {
        const FloatFormat base =
            with_bias(make_format(f.exponent_bits, f.mantissa_bits, specials, f.is_signed), f.bias);
        const bool takes_nan_at_zero = f.nan_at_negative_zero && !base.nan_at_negative_zero;
        if (base.nan_at_negative_zero && !f.nan_at_negative_zero) continue;
        if (takes_nan_at_zero && f.nan_codes != base.nan_codes)
            continue;  // a name has nannz or nan<count>, not both
        std::string name = "e";
        const auto append = [&name](std::string_view word, const auto& number) {
            name.append(word).append(std::to_string(number));
        };
        append("", f.exponent_bits);
        append("m", f.mantissa_bits);
        name += suffix;
        if (!f.is_signed) name += "u";
        if (f.bias != make_format(f.exponent_bits, f.mantissa_bits, specials, f.is_signed).bias) {
            append("b", f.bias);
        }
        if (!f.subnormals) name += "nosub";
        else if (f.subnormal_exponent != base.subnormal_exponent)
            append("sub", f.subnormal_exponent);
        if (f.zero != base.zero) {
            if (f.zero == Zero::both_signs) continue;
            name += f.zero == Zero::single ? "zero1" : "zero0";
        }
        if (takes_nan_at_zero) name += "nannz";
        else if (f.nan_codes != base.nan_codes) append("nan", f.nan_codes);
        if (f.has_infinity != base.has_infinity) name += f.has_infinity ? "inf" : "noinf";
        if (f.even_code_ties) name += "eventies";
        if (!detail::means_another(name, f) && (best.empty() || name.size() < best.size()))
            best = name;
    }
    return best;
}

}  // namespace

std::span<const NamedFormat> named_formats() { return named_format_table; }

std::string FloatFormat::name() const {
    for (const NamedFormat& row : named_format_table) {
        if (row.format == *this) return std::string(row.name);
    }
    const int bits = storage_bits();
    if (bits >= 3 && (nan_at_negative_zero || (!is_signed && nan_codes == 1)) &&
        precision() <= bits - (is_signed ? 1 : 0) &&
        *this == make_p3109(bits, precision(), is_signed, has_infinity)) {
        return "binary" + std::to_string(bits) + "p" + std::to_string(precision()) +
               (is_signed ? "s" : "u") + (has_infinity ? "e" : "f");
    }
    if (bits == 8 && bias >= 0 && bias <= 63 && (exponent_bits == 4 || exponent_bits == 5) &&
        *this == cfloat8(exponent_bits, bias)) {
        return (exponent_bits == 4 ? "cfloat8_143b" : "cfloat8_152b") + std::to_string(bias);
    }
    return general_name(*this);
}

FloatFormat parse_format(std::string_view name) {
    if (const auto known = detail::format_in_table(name)) return *known;
    std::optional<FloatFormat> f = detail::read_p3109_name(name);
    if (!f) f = parse_family(name);
    const auto of_name = [&](auto&& step) {
        try {
            step();
        } catch (const std::invalid_argument& refused) {
            throw error("format '" + detail::limits::clipped(name) + "': " + refused.what());
        }
    };
    if (!f) of_name([&] { f = detail::read_general_name(name); });
    if (!f) {
        if (const auto* meant = detail::formats_meant(name); meant != nullptr) {
            throw error("the format name '" + detail::limits::clipped(name) +
                        "' has several meanings: " + std::string(meant->all));
        }
        if (const std::string spelt = detail::format_spelling(name); !spelt.empty())
            return parse_format(spelt);
        if (const std::string lower = general_in_capitals(name); !lower.empty())
            return parse_format(lower);
        const std::string other = detail::not_a_float_format(name);
        if (!other.empty()) {
            throw error("unknown format '" + detail::limits::clipped(name) + "'" + other);
        }
        const std::string right = name.size() <= 64 ? reordered(name) : "";
        const std::string near = right.empty() ? detail::did_you_mean(name, all_names())
                                               : "; did you mean " + right + "?";
        throw error("unknown format '" + detail::limits::clipped(name) + "'" +
                    (near.empty()
                         ? "; use a name from `apscope formats` (C++: named_formats()), or "
                           "e<E>m<M>[fn|fnuz|finite][u][b<bias>]"
                         : near));
    }
    of_name([&] { validate(*f); });
    refuse_usual_bias(name, *f);
    return *f;
}

}  // namespace apscope
