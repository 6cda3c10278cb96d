#include "core/matrix_unit_presets.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <stdexcept>

#include "core/limits.h"
#include "core/named_formats.h"
#include "core/nearest_names.h"
#include "core/parse.h"
#include "core/spec_text.h"

namespace apscope::detail {

namespace {

constexpr std::string_view here = "recorded (H100, this project)",
                           published = "recorded elsewhere (MATLAB-tensor-core)",
                           source = "a model's source only (MMA-Sim)", half = "fp16 bf16",
                           fp8 = "e4m3fn e5m2";

using Rule = MatrixUnit::Rule;
using Interleave = MatrixUnit::Interleave;

// Results are fp32, truncated to `result` bits.
constexpr MatrixUnit fp32_unit(int block, int fraction, int result = 23) {
    return {.block = block, .fraction = fraction, .result = result};
}
// Results and C are fp16, rounded ties to even.
constexpr MatrixUnit fp16_unit(int block, int fraction) {
    return {.block = block, .fraction = fraction, .result = 10, .half = true, .nearest = true};
}
// Two interleaved blocks from +0; C is added last.
constexpr MatrixUnit c_last(MatrixUnit unit) {
    unit.c_last = true;
    unit.interleave = Interleave::mod4;
    return unit;
}
// Operands with scales, one for so many terms.
constexpr MatrixUnit scaled(MatrixUnit unit, int terms) {
    unit.scaled = terms;
    return unit;
}
constexpr MatrixUnit grouped(int terms) {
    return scaled({.block = 64, .fraction = 35, .rule = Rule::grouped}, terms);
}
constexpr MatrixUnit amd(Rule rule, int block, Interleave interleave = Interleave::none) {
    return {.block = block,
            .fraction = 24,
            .rule = rule,
            .nearest = true,
            .interleave = interleave,
            .flush = rule == Rule::pairwise};
}

constexpr auto presets = std::to_array<MatrixUnitPreset>({
    {"v100", "m8n8k4", "fp16", fp32_unit(4, 23), published},
    {"v100:fp16", "m8n8k4", "fp16", fp16_unit(4, 23), published},
    {"t4", "m16n8k8", "fp16", fp32_unit(8, 24), source},
    {"t4:fp16", "m16n8k8", "fp16", fp16_unit(8, 24), source},
    {"a100", "m16n8k16", half, fp32_unit(8, 24), published},
    {"a100:fp16", "m16n8k16", "fp16", fp16_unit(8, 24), published},
    {"a100:tf32", "m16n8k8", "tf32", fp32_unit(4, 24), published},
    {"ada", "m16n8k16", half, fp32_unit(8, 24), published},
    {"ada:fp16", "m16n8k16", "fp16", fp16_unit(8, 24), published},
    {"ada:tf32", "m16n8k8", "tf32", fp32_unit(4, 24), published},
    {"ada:fp8", "m16n8k32", fp8, fp32_unit(16, 13, 13), published},
    {"ada:fp8_fp16", "m16n8k32", fp8, fp16_unit(16, 13), published},
    {"h100", "mma, wgmma", half, fp32_unit(16, 25), here},
    {"h100:fp16", "mma, wgmma", "fp16", fp16_unit(16, 25), published},
    {"h100:tf32", "mma, wgmma", "tf32", fp32_unit(8, 25), here},
    {"h100:fp8", "wgmma", fp8, fp32_unit(32, 13, 13), here},
    {"h100:fp8_fp16", "wgmma", fp8, fp16_unit(32, 13), source},
    {"h100:mma_fp8", "mma.sync", fp8, c_last(fp32_unit(16, 25)), here},
    {"h100:mma_fp8_fp16", "mma.sync", fp8, c_last(fp16_unit(16, 25)), published},
    {"b200", "mma or tcgen05", half, fp32_unit(16, 25), published},
    {"b200:fp16", "mma or tcgen05", "fp16", fp16_unit(16, 25), published},
    {"b200:tf32", "mma or tcgen05", "tf32", fp32_unit(8, 25), published},
    {"b200:fp8", "tcgen05", fp8, fp32_unit(32, 25), source},
    {"b200:fp8_fp16", "tcgen05", fp8, fp16_unit(32, 25), source},
    {"b200:mxfp8", "tcgen05 mxf8f6f4", "e4m3fn e5m2 e3m2fn e2m3fn e2m1fn",
     scaled(fp32_unit(32, 25), 32), source, "e8m0fnu"},
    {"b200:mxfp4", "tcgen05 mxf4", "e2m1fn", grouped(32), source, "e8m0fnu"},
    {"b200:nvfp4", "tcgen05 mxf4nvf4", "e2m1fn", grouped(16), source, "e4m3fn"},
    {"mi100", "v_mfma fp16", "fp16", amd(Rule::exact, 4), source},
    {"mi100:bf16", "v_mfma bf16", "bf16", amd(Rule::exact, 2), source},
    {"mi250x", "v_mfma k16 fp16, bf16_1k", half, amd(Rule::pairwise, 4), source},
    {"mi250x:bf16", "v_mfma bf16", "bf16", amd(Rule::pairwise, 2), source},
    {"mi300x", "v_mfma fp16, bf16", half, amd(Rule::cdna3, 8), source},
    {"mi300x:xf32", "v_mfma xf32", "tf32", amd(Rule::cdna3, 4), source},
    {"mi300x:fp8", "v_mfma fp8, bf8", "e4m3fnuz e5m2fnuz",
     amd(Rule::cdna3, 16, Interleave::even_odd), source},
});

constexpr auto missing = std::to_array<MissingMatrixUnit>({
    {"mi350x", "no model of CDNA 4 has been published"},
    {"cdna4", "no model of it has been published"},
    {"tpu", "no model of it has been published"},
    {"trainium", "no model of it has been published"},
});

template <std::size_t N>
std::size_t choice(std::string_view key, std::string_view text,
                   const std::array<std::string_view, N>& words) {
    const auto at = std::ranges::find(words, text);
    if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
    std::string list(words[0]);
    for (std::size_t i = 1; i < N; ++i)
        list += (i + 1 == N ? " or " : ", ") + std::string(words[i]);
    throw std::invalid_argument(std::string(key) + "=" + limits::clipped(text) + " must be " +
                                list);
}

// Sets the field of a key.
void set(MatrixUnitOrder& order, std::string_view key, std::string_view text) {
    MatrixUnit& unit = order.unit;
    const auto integer = [&](long max) { return parse_integer(key, text, 1, max); };
    if (key == "k") {
        unit.block = static_cast<int>(integer(256));
    } else if (key == "fraction") {
        unit.fraction = static_cast<int>(integer(40));
    } else if (key == "result") {
        unit.result = static_cast<int>(integer(23));
    } else if (key == "c") {
        unit.c_last = choice<2>(key, text, {"term", "last"}) == 1;
    } else if (key == "interleave") {
        unit.interleave =
            static_cast<Interleave>(choice<3>(key, text, {"none", "mod4", "even_odd"}));
    } else if (key == "result_rounding") {
        unit.nearest = choice<2>(key, text, {"toward_zero", "ties_to_even"}) == 1;
    } else if (key == "subnormals") {
        unit.flush = choice<2>(key, text, {"keep", "flush"}) == 1;
    } else if (key == "format") {
        unit.half = choice<2>(key, text, {"fp32", "fp16"}) == 1;
    } else if (key == "inputs") {
        const std::vector<std::string_view> formats = split_outside(text, '*');
        if (formats.size() > 2)
            throw std::invalid_argument("inputs=" + limits::clipped(text) +
                                        " must be a format, or those of a and b: inputs=A*B");
        order.inputs[0] = {parse_format(formats.front()).name()};
        order.inputs[1] = {parse_format(formats.back()).name()};
    } else if (key == "promote") {
        order.promote = static_cast<std::size_t>(integer(largest_count));
    } else if (key == "split") {
        order.split = static_cast<std::size_t>(integer(largest_count));
    } else {
        throw std::invalid_argument(
            "unknown key '" + limits::clipped(key) +
            "' of order=unit; use k, fraction, result, c, interleave, result_rounding, "
            "subnormals, format, inputs, promote or split");
    }
}

// Throws for an order that changes a rule which has no numbers: AMD's, and those of operands with
// scales, which take a fraction.
void require_own_rule(const MatrixUnitOrder& order, const MatrixUnitPreset& preset) {
    const auto refuse = [&](const std::string& why) {
        throw std::invalid_argument("order=" + limits::clipped(order.text) + why);
    };
    const MatrixUnit& unit = order.unit;
    MatrixUnit own = preset.unit;
    if (unit.scaled == 0) {
        if (unit != own) refuse(" changes the rule of a unit that takes inputs, promote and split");
        return;
    }
    own.fraction = unit.fraction;
    if (unit != own) refuse(" changes the rule of a unit that takes fraction, inputs and promote");
    const std::vector<std::string_view> taken = split_outside(preset.inputs, ' ');
    for (const std::vector<std::string>& formats : order.inputs)
        for (const std::string& format : formats)
            if (std::ranges::find(taken, format) == taken.end())
                refuse(" takes operands of " + std::string(preset.inputs));
    const std::string terms = std::to_string(unit.scaled);
    if (order.split != 0)
        refuse(" has a scale for " + terms + " terms; use promote=, a multiple of " + terms +
               ", instead of split=");
    if (order.promote % static_cast<std::size_t>(unit.scaled) != 0)
        refuse(" has a scale for " + terms + " terms; promote must be a multiple of " + terms);
}

}  // namespace

std::span<const MatrixUnitPreset> matrix_unit_presets() { return presets; }
std::span<const MissingMatrixUnit> missing_matrix_units() { return missing; }

const MatrixUnitPreset& matrix_unit_preset(std::string_view name) {
    const auto found = std::ranges::find(presets, name, &MatrixUnitPreset::name);
    if (found != presets.end()) return *found;
    const auto known = std::ranges::find_if(missing, [&](const MissingMatrixUnit& m) {
        return name == m.name || (name.starts_with(m.name) && name[m.name.size()] == ':');
    });
    if (known != missing.end())
        throw std::invalid_argument("no matrix unit '" + limits::clipped(name) +
                                    "': " + std::string(known->reason));
    std::string list;
    for (const MatrixUnitPreset& p : presets)
        list += (list.empty() ? "" : ", ") + std::string(p.name);
    throw std::invalid_argument("unknown matrix unit '" + limits::clipped(name) + "'; use " + list +
                                ", or k=N,fraction=N,result=N");
}

MatrixUnitOrder parse_matrix_unit_order(std::string_view text) {
    MatrixUnitOrder order;
    order.text = "unit:" + std::string(text);
    std::vector<std::string_view> parts = split_outside(text, ',');
    const bool named = parts[0].find('=') == std::string_view::npos;
    if (named) {
        const MatrixUnitPreset& preset = matrix_unit_preset(parts[0]);
        order.unit = preset.unit;
        order.scales = preset.scales;
        for (const std::string_view input : split_outside(preset.inputs, ' '))
            order.inputs[0].emplace_back(input);
        order.inputs[1] = order.inputs[0];
        parts.erase(parts.begin());
    }
    const int instruction = order.unit.instruction();
    std::vector<std::string_view> keys;
    const auto has = [&](std::string_view key) {
        return std::ranges::find(keys, key) != keys.end();
    };
    for (const std::string_view part : parts) {
        const std::size_t equals = part.find('=');
        const std::string_view key = part.substr(0, equals);
        if (equals == std::string_view::npos)
            throw std::invalid_argument("'" + limits::clipped(part) + "' in order=" +
                                        limits::clipped(order.text) + " must be KEY=VALUE");
        if (has(key))
            throw std::invalid_argument("order=" + limits::clipped(order.text) + " has the key " +
                                        limits::clipped(key) + " twice");
        keys.push_back(key);
        set(order, key, part.substr(equals + 1));
    }
    if (!named) {
        for (const std::string_view key : {"k", "fraction", "result"})
            if (!has(key))
                throw std::invalid_argument("order=" + limits::clipped(order.text) +
                                            " needs the key " + std::string(key));
    }
    MatrixUnit& unit = order.unit;
    if (has("k") || has("interleave")) {
        // A preset's own k is that of an instruction, too.
        const int products = has("k") ? unit.block : instruction;
        const int multiple = unit.interleave == Interleave::none       ? 1
                             : unit.interleave == Interleave::even_odd ? 2
                                                                       : 4;
        if (products % multiple != 0)
            throw std::invalid_argument("k=" + std::to_string(products) +
                                        " must be a multiple of " + std::to_string(multiple) +
                                        " with this interleave");
        unit.block = products / (multiple == 1 ? 1 : 2);
    }
    if (unit.rule != Rule::aligned || unit.scaled != 0)
        require_own_rule(order, matrix_unit_preset(split_outside(text, ',')[0]));
    if (unit.half && unit.result > 10)
        throw std::invalid_argument("result=" + std::to_string(unit.result) +
                                    " must be at most 10 with format=fp16");
    if (has("promote") && has("split"))
        throw std::invalid_argument("order=" + limits::clipped(order.text) +
                                    " has promote and split; use one of them");
    if (unit.half && (order.promote != 0 || order.split != 0))
        throw std::invalid_argument("order=" + limits::clipped(order.text) +
                                    " adds chains in fp32, but the unit's results are fp16");
    return order;
}

}  // namespace apscope::detail
