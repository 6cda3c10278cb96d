#include "core/typed_names.h"

#include <algorithm>
#include <array>
#include <optional>

#include "core/block_format.h"
#include "core/named_formats.h"
#include "core/parse.h"

namespace apscope::detail {

namespace {

// The longest word that is looked up, in letters.
constexpr std::size_t longest_word = 64;

constexpr auto spellings = std::to_array<Words>({
    {"f64 fp64 float64 double doubleprecision", "fp64"},
    {"f32 fp32 float32 singleprecision", "fp32"},
    {"f16 halfprecision", "fp16"},
    {"bfloat brainfloat brainfloat16", "bf16"},
    {"tensorfloat tensorfloat32 tfloat32", "tf32"},
    {"fp8e5m2 f8e5m2 float8e5m2", "e5m2"},
    {"fp8e4m3fn f8e4m3fn float8e4m3fn ofp8e4m3fn", "e4m3fn"},
    {"fp8e4m3fnuz", "e4m3fnuz"},
    {"fp8e5m2fnuz", "e5m2fnuz"},
    {"fp8e3m4", "e3m4"},
    {"fp6e3m2 f6e3m2 float6e3m2 fp6e3m2fn", "e3m2fn"},
    {"fp6e2m3 f6e2m3 float6e2m3 fp6e2m3fn", "e2m3fn"},
    {"fp4e2m1 f4e2m1 float4e2m1 fp4e2m1fn", "e2m1fn"},
    {"ue8m0 e8m0fn", "e8m0fnu"},
});

constexpr auto several = std::to_array<SeveralFormats>({
    {"fp8 float8 f8 8bitfloat minifloat", "e4m3fn", "e5m2",
     "e4m3fn, e5m2, e4m3, e4m3fnuz and e5m2fnuz"},
    {"e4m3 fp8e4m3 f8e4m3 float8e4m3 nvfp8e4m3", "e4m3fn", "e4m3",
     "e4m3fn (OCP, largest 448) and e4m3 (IEEE rules, largest 240)"},
    {"hfp8", "hfp8_forward", "e5m2",
     "hfp8_forward (1-4-3, bias 11) and e5m2 (its backward format)"},
    {"fp6 float6 f6", "e3m2fn", "e2m3fn", "e3m2fn and e2m3fn"},
    {"e3m2", "e3m2fn", "e3m2", "e3m2fn (OCP, largest 28) and e3m2 (IEEE rules, largest 14)"},
    {"e2m3", "e2m3fn", "e2m3", "e2m3fn (OCP, largest 7.5) and e2m3 (IEEE rules, largest 3.75)"},
    {"fp4 float4 f4 4bitfloat", "e2m1fn", "binary4p2sf", "e2m1fn (OCP) and binary4p2sf (P3109)"},
    {"e2m1", "e2m1fn", "e2m1", "e2m1fn (OCP, largest 6) and e2m1 (IEEE rules, largest 3)"},
    {"16bit 16bits 16bitfloat", "bf16", "fp16", "bf16 and fp16"},
    {"float", "fp32", "fp64", "fp32 (C, torch) and fp64 (Python, NumPy)"},
});

constexpr auto not_floats = std::to_array<Words>({
    {"nf4 normalfloat normalfloat4",
     "has levels of its own, which no format here has; e2m1fn is a float of 4 bits, and mxfp4 and "
     "nvfp4 are block formats"},
    {"mx4 mx6 mx9", "has two levels of shared exponents, which no format here has; OCP's block "
                    "formats are mxfp4, mxfp6_e3m2, mxfp6_e2m3, mxfp8_e4m3, mxfp8_e5m2, mxint8"},
    {"bfp blockfloat blockfp blockfloatingpoint msfp hbfp",
     "is a block format with two numbers, bits and block size, such as bfp:8:32"},
    {"posit posit8 posit16 posit32",
     "is a posit, not a floating-point format of this kind; e5m2 and fp16 are"},
    {"log lns lns8", "is a logarithmic number system, not a floating-point format; e7m0 has powers "
                     "of two alone"},
});

constexpr auto block_words = std::to_array<Words>({
    {"mx mxfp mxfp8 mx8 fp8 float8", "mxfp8_e4m3 or mxfp8_e5m2"},
    {"mxfp6 fp6 float6", "mxfp6_e3m2 or mxfp6_e2m3"},
    {"fp4 mx4 float4", "mxfp4 or nvfp4"},
    {"mxfp8e4m3fn mxe4m3 e4m3 e4m3fn fp8e4m3", "mxfp8_e4m3"},
    {"mxe5m2 e5m2 fp8e5m2", "mxfp8_e5m2"},
    {"e3m2 e3m2fn", "mxfp6_e3m2"},
    {"e2m3 e2m3fn", "mxfp6_e2m3"},
    {"mxfp4e2m1 e2m1 e2m1fn", "mxfp4 or nvfp4"},
    {"int8 i8 mxint", "mxint8"},
    {"int4 i4 mxint4", "blocks:int4"},
    {"mx6 mxint6 int6", "blocks:int6, mxfp6_e3m2 or mxfp6_e2m3"},
    {"bfp blockfloat blockfp msfp hbfp", "bfp:8:32 (bits, block)"},
    {"nvfp nv4 nvidiafp4", "nvfp4"},
});

bool is_block_format(const std::string& plain) {
    return std::ranges::any_of(named_block_formats(), [&](const NamedBlockFormat& row) {
        return folded(row.name) == plain;
    });
}

}  // namespace

std::string_view meant_by(std::span<const Words> rows, std::string_view word) {
    if (word.size() > longest_word) return {};
    const std::string plain = folded(word);
    for (const Words& row : rows)
        if (lists_word(row.words, plain)) return row.meant;
    return {};
}

std::string folded(std::string_view word) {
    std::string out;
    for (const char c : word) {
        if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
        else if (c != '_' && c != '-' && c != ' ' && c != '.') out += c;
    }
    return out;
}

std::string format_spelling(std::string_view word) {
    if (word.size() > 64 || formats_meant(word) != nullptr) return "";
    if (const auto meant = meant_by(spellings, word); !meant.empty()) return std::string(meant);
    const std::string plain = folded(word);
    for (const NamedFormat& row : named_formats()) {
        if (folded(row.name) == plain) return std::string(row.name);
        for (std::string_view rest = row.aliases; !rest.empty();) {
            const std::size_t end = std::min(rest.find(' '), rest.size());
            if (folded(rest.substr(0, end)) == plain) return std::string(row.name);
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    return "";
}

const SeveralFormats* formats_meant(std::string_view word) {
    const std::string plain = word.size() > 64 ? "" : folded(word);
    const auto row = std::ranges::find_if(
        several, [&](const SeveralFormats& r) { return lists_word(r.words, plain); });
    return row == several.end() ? nullptr : &*row;
}

int integer_bits(std::string_view word) {
    const std::string plain = word.size() > 16 ? "" : folded(word);
    std::string_view rest = plain;
    for (const std::string_view start : {"uint", "int", "sint", "i", "u", "q", "w"}) {
        if (!rest.starts_with(start)) continue;
        rest.remove_prefix(start.size());
        if (rest.ends_with('t')) rest.remove_suffix(1);  // int8_t
        const std::optional<int> bits = parse_number<int>(rest);
        return bits && *bits >= 1 && *bits <= 64 ? *bits : 0;
    }
    return 0;
}

std::string not_a_float_format(std::string_view word) {
    if (word.size() > 64) return "";
    const std::string text(word), what(meant_by(not_floats, word));
    if (!what.empty()) return "; " + text + " " + what;
    if (is_block_format(folded(word)))
        return "; " + text + " is a block format, whose elements share scales (quantize_blocks)";
    const std::string plain = folded(word), blocks(meant_by(block_words, word));
    if (!blocks.empty() && (plain.starts_with("mx") || plain.starts_with("nv")))
        return "; " + text + " is a word for a block format, " + blocks;
    if (const int bits = integer_bits(word); bits != 0) {
        return "; " + text + " is an integer, not a float" +
               (bits == 8               ? "; mxint8 is the block format of such elements"
                : bits >= 2 && bits < 8 ? "; blocks:int" + std::to_string(bits) +
                                              " is the block format of such elements"
                                        : "");
    }
    return "";
}

std::string block_formats_meant(std::string_view word) {
    const std::string meant(meant_by(block_words, word));
    return meant.empty() ? "" : "; did you mean " + meant + "?";
}

}  // namespace apscope::detail
