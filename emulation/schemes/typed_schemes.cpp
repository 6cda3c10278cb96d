#include "emulation/schemes/typed_schemes.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/block_format.h"
#include "core/limits.h"
#include "core/named_formats.h"
#include "core/parse.h"
#include "core/typed_names.h"

namespace apscope::detail {

namespace {

// Other names of a scheme. Each name has one meaning, independent of the text that follows it in a
// spec.
constexpr auto schemes_meant = std::to_array<Words>({
    {"ef errorfeed memory", "error_feedback"},
    {"efsignsgd efsign", "error_feedback(sign)"},
    {"majorityvote signsgdmv signsgdmajority signsgdmajorityvote", "sign_vote"},
    {"1bitadam onebitadam", "onebit_adam"},
    {"randk", "random_k"},
    {"autoprecisionscaling", "aps"},
    {"naturalcompression cnat", "natural"},
    {"tensorhomomorphiccompression", "thc"},
    {"mxfp4e2m1", "mx:block_format=mxfp4"},
    {"bfp", "mx:block_format=bfp"},
    {"blocks", "mx:block_format=blocks"},
    {"mixed", "hybrid"},
});

// Suggestions, which follow "; " in a message, for words that mean no scheme, or several schemes.
constexpr auto hints = std::to_array<Words>({
    {"signsgd 1bit onebit sgn signs bit binary",
     "one bit has sign (a scale per worker), sign_vote (the majority's), error_feedback(sign) and "
     "onebit_adam"},
    {"signum", "Signum is sign_vote:momentum=0.9"},
    {"1bitsgd onebitsgd", "1-bit SGD is error_feedback(sign)"},
    {"1bitlamb onebitlamb 01adam 0/1adam zerooneadam", "the nearest is onebit_adam"},
    {"dgc deepgradientcompression sparse sparsify sparsification",
     "sparse gradients have top_k, random_k, error_feedback(top_k), ok_topk, sparcml and, without "
     "loss, "
     "zero_blocks"},
    {"lowrank svd", "low rank has powersgd:rank=2 and error_feedback(powersgd)"},
    {"ternary tern tgrad", "ternary values have terngrad"},
    {"rotation hadamard randomrotation", "a random rotation is a part of thc"},
    {"fft dct fourier", "Fourier coefficients have fft_sparse"},
    {"lossscale gradscaler amp autocast mixedprecision dynamic dynamiclossscale static",
     "a loss scale has loss_scaling:FORMAT (constant) and dynamic_loss_scaling:FORMAT (as "
     "torch.amp.GradScaler), such as dynamic_loss_scaling:fp16"},
    {"deepspeed", "DeepSpeed's loss scale is deepspeed_loss_scaling:fp16"},
    {"openseq2seq logmax backoff",
     "OpenSeq2Seq's loss scales are logmax_loss_scaling:fp16 and, as Backoff, "
     "dynamic_loss_scaling:fp16,init=16384,min_scale=1,max_scale=16384"},
    {"te transformerengine fp8recipe torchao",
     "the FP8 recipes are delayed_scaling:e4m3fn, current_scaling:e4m3fn and mx"},
    {"scaled scaling scale amax absmax tensorwise pertensor perlayer layerwise layer",
     "a scale per tensor has aps:e4m3fn (a power of two that all agree on) and "
     "current_scaling:e4m3fn"},
    {"blockwise block blockscaled groupwise",
     "a scale per block has mx, nvfp4, aps:e4m3fn,unit=32 and current_scaling:e4m3fn,block=128"},
    {"rowwise perrow perchannel channelwise", "a scale per row has aps:e4m3fn,unit=row"},
    {"msfp hbfp blockfp blockfloat blockfloatingpoint",
     "block floating point is mx:block_format=bfp:8:32 (bits, block)"},
    {"mxfp8 mx8 mxfp", "MXFP8 is mx:block_format=mxfp8_e4m3 or mx:block_format=mxfp8_e5m2"},
    {"mxfp6", "MXFP6 is mx:block_format=mxfp6_e3m2 or mx:block_format=mxfp6_e2m3"},
    {"mx4 mx6 mx9", "it has two levels of shared exponents, which no scheme has; OCP's formats are "
                    "mx:block_format=mxfp4 and mx:block_format=mxfp6_e3m2"},
    {"nf4 normalfloat4", "four bits have nvfp4, mx:block_format=mxfp4, qsgd:levels=7 and "
                         "aps:e2m1fn"},
    {"sr stochasticrounding",
     "stochastic rounding is stochastic:e4m3fn, or rounding=stochastic of a scheme with a format, "
     "such as aps:e4m3fn,rounding=stochastic"},
    {"rtn round rounding cast raw plain quantize quant",
     "none:FORMAT rounds to a format without a scale, such as none:e4m3fn"},
    {"identity noop nocompression uncompressed baseline lossless full exact",
     "none:fp32 sends what it is given"},
    {"8bit 8bits eightbit",
     "eight bits have aps:e3m4,rule=tight (floats), integer_allreduce:bits=8 (integers) and "
     "mx:block_format=mxint8 (blocks)"},
    {"4bit 4bits fourbit",
     "four bits have nvfp4, mx:block_format=mxfp4 (blocks), aps:e2m1fn,unit=16 (floats) and "
     "integer_allreduce:bits=4 (integers)"},
    {"2bit 2bits", "two bits have terngrad, integer_allreduce:bits=2 and thc:bits=2"},
    {"ring tree butterfly hierarchical sequential twophase reducescatter nccl allreduce allgather "
     "twoshot oneshot",
     "it is a reduction: --topology ring, tree or two_phase on the command line, topology= in "
     "Python"},
});

// Keys with the same meaning. The hint names the first of these keys that the scheme has.
struct Keys {
    std::string_view words;  // the words that people type, in the form of folded()
    std::array<std::string_view, 6> keys = {};  // the keys, in order of preference
};
const std::array<Keys, 12> keys_meant{{
    {"unit block blocksize group groupsize chunk chunksize granularity bucket bucketsize tile per "
     "scaleper elements",
     {"unit", "block", "group", "chunk", "bucket"}},
    {"round roundingmode mode sr", {"rounding"}},
    {"saturate clamp clip sat overflowmode", {"overflow"}},
    {"acc accum accumulator accumulation sum sumformat accumulatein accumulateformat",
     {"accumulate"}},
    {"k ratio density fraction sparsity compression compressratio topk", {"keep"}},
    {"r ranks", {"rank"}},
    {"b nbits bitwidth numbits width", {"bits"}},
    {"nlevels numlevels s q", {"levels", "points"}},
    {"lossscale s factor constant", {"scale", "init"}},
    {"format fmt element elements dtype type", {"block_format"}},
    {"room margin", {"headroom", "margin"}},
    {"lag latency", {"delay"}},
}};

// Values that people type without their key.
constexpr auto values_meant = std::to_array<Words>({
    {"tight ceil", "rule"},
    {"stochastic sr", "rounding=stochastic"},
    {"saturate sat saturating", "overflow=saturate"},
    {"row rows rowwise perrow", "unit=row"},
    {"tensor pertensor layer perlayer", "unit=tensor"},
    {"model global", "unit=model"},
});

// Other words for values of the key unit, which are accepted.
constexpr auto units_accepted = std::to_array<Words>({
    {"pertensor tensorwise", "tensor"},
    {"perrow rowwise rows", "row"},
    {"permodel", "model"},
});
// Words for values of the key unit that are refused, each with the sentence that names the right
// value.
constexpr auto units_meant = std::to_array<Words>({
    {"layer perlayer layerwise module",
     "a layer is unit=tensor, a scale for each of its tensors (weight, bias)"},
    {"param parameter parameters weight", "a parameter is unit=tensor"},
    {"channel perchannel channelwise outputchannel column",
     "output channels are the rows of the first axis, unit=row"},
    {"global whole all network gradient step", "one scale for all tensors is unit=model"},
    {"block blocks blockwise perblock group groupwise tile vector",
     "a block is its number of elements, such as unit=32"},
    {"bucket ddp", "a bucket is unit=bucket:25MB"},
    {"element", "an element is unit=1"},
});

// The canonical name of a float format; empty if the text is not a float format.
std::string format_name(std::string_view text) {
    try {
        return parse_format(text).name();
    } catch (const std::invalid_argument&) {
        return "";
    }
}

// True if fp32 contains the numbers of the format, as schemes need.
bool fits_fp32(std::string_view name) {
    try {
        require_fp32(parse_format(name), "a scheme");
        return true;
    } catch (const std::invalid_argument&) {
        return false;
    }
}

// The canonical name of a block format in specs; empty if the text is not a block format.
std::string block_format_name(std::string_view text) {
    try {
        std::string name = parse_block_format(text).name();
        std::replace(name.begin(), name.end(), ',', '/');
        return name;
    } catch (const std::invalid_argument&) {
        return "";
    }
}

std::string unit_word(std::string_view value) {
    if (const std::string_view meant = meant_by(units_accepted, value); !meant.empty())
        return std::string(meant);
    if (const std::string_view meant = meant_by(units_meant, value); !meant.empty())
        throw std::invalid_argument("unit=" + limits::clipped(value) + ": " + std::string(meant));
    return std::string(value);
}

bool has_key(const SchemeDefinition& d, std::string_view key) {
    return std::ranges::any_of(d.keys, [&](const SchemeKey& k) { return k.name == key; });
}

std::string integers(int bits) {
    const std::string n = std::to_string(bits);
    if (bits == 1) return std::string(meant_by(hints, "1bit"));
    if (bits > 32) return "integers have up to 32 bits, such as integer_allreduce:bits=16";
    return "integers of " + n + " bits have integer_allreduce:bits=" + n +
           (bits > 8 ? ""
                     : ", mx:block_format=" + std::string(bits == 8 ? "mxint8" : "blocks:int" + n) +
                           " and qsgd:levels=" + std::to_string((1 << (bits - 1)) - 1));
}

}  // namespace

std::string spec_begun_by(std::string_view name) {
    if (name.size() > 64) return "";
    const std::string plain = folded(name);
    for (const SchemeDefinition& d : scheme_definitions())
        if (folded(d.name) == plain || folded(d.class_name) == plain) return std::string(d.name);
    if (const std::string_view meant = meant_by(schemes_meant, name); !meant.empty())
        return std::string(meant);
    const std::string block = block_format_name(name);
    return block.empty() ? "" : "mx:block_format=" + block;
}

std::string scheme_hint(std::string_view name) {
    if (name.size() > 64) return "";
    const std::string_view known = meant_by(hints, name);
    if (!known.empty()) return "; " + std::string(known);
    if (const SeveralFormats* formats = formats_meant(name); formats != nullptr) {
        const std::string one(formats->one), other(formats->other);
        return "; " + std::string(name) + " is a word for several formats: none:" + one +
               " or none:" + other + " rounds to one, aps:" + one + " or aps:" + other +
               " scales every tensor first";
    }
    if (const int bits = integer_bits(name); bits != 0) return "; " + integers(bits);
    const std::string format = format_name(name);
    if (format.empty()) return "";
    const std::string is = "; " + std::string(name) + " is a format: ";
    if (format == "fp32") return is + "none:fp32 sends gradients as they are";
    if (!fits_fp32(format))
        return is + "a scheme works on fp32 numbers, and none:fp32 sends them as they are";
    return is + "none:" + format + " rounds to it, aps:" + format + " scales every tensor first";
}

std::string format_hint(const SchemeDefinition& definition, std::string_view head) {
    const std::string start = "scheme '" + std::string(definition.name) +
                              "' takes a float format, which '" + limits::clipped(head) +
                              "' is not; ";
    if (head.size() > 64) return "";
    if (const std::string block = block_format_name(head); !block.empty()) {
        return start + "the block format is " +
               (block == "nvfp4" ? block : "mx:block_format=" + block);
    }
    if (const int bits = integer_bits(head); bits != 0) return start + integers(bits);
    const std::string plain = folded(head);
    for (const std::string_view word : {"mxfp8", "mxfp6", "8bit", "4bit", "nf4", "bfp"}) {
        if (plain != word) continue;
        return start + std::string(meant_by(hints, word == "bfp" ? "msfp" : word));
    }
    return "";
}

std::string key_hint(const SchemeDefinition& definition, std::string_view key,
                     std::string_view value) {
    if (key.size() > 64) return "";
    const std::string plain = folded(key);
    for (const Keys& row : keys_meant) {
        if (!lists_word(row.words, plain)) continue;
        for (const std::string_view meant : row.keys) {
            if (meant.empty() || !has_key(definition, meant)) continue;
            const bool truth = value == "true" || value == "True" || value == "1";
            if (meant == "overflow" && truth) value = "saturate";
            if (meant == "rounding" && truth) value = "stochastic";
            return "; did you mean " + std::string(meant) + "=" + limits::clipped(value) + "?";
        }
    }
    return "";
}

std::string bare_hint(const SchemeDefinition& definition, std::string_view word) {
    std::string meant(meant_by(values_meant, word));
    if (meant == "rule") meant += "=" + folded(word);
    const std::string key = meant.substr(0, meant.find('='));
    return meant.empty() || !has_key(definition, key) ? "" : "; did you mean " + meant + "?";
}

std::string value_word(std::string_view key, std::string_view value) {
    const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
    std::string name;
    if (key == "unit") return unit_word(value);
    if (key == "accumulate") name = format_name(value);
    if (key == "block_format" && std::ranges::any_of(value, is_capital))
        name = block_format_name(value);
    return name.empty() ? std::string(value) : name;
}

}  // namespace apscope::detail
