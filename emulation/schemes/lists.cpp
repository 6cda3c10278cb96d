#include "emulation/schemes/lists.h"

#include <set>

#include "emulation/schemes/definition.h"

namespace apscope::detail {

namespace {

std::string usual(const SchemeDefinition& d) {
    const std::string_view inside = d.body == SchemeDefinition::Body::scheme   ? "(aps:e4m3)"
                                    : d.body == SchemeDefinition::Body::policy ? "(else=aps:e4m3)"
                                                                               : "";
    return std::string(d.name) + std::string(inside) + (d.takes_format ? ":e4m3" : "");
}

}  // namespace

std::vector<std::string> main_schemes() {
    // Formats without a scale, then block formats with 8 and with 4 bits per element.
    std::vector<std::string> specs{"none:fp32",
                                   "none:bf16",
                                   "none:fp16",
                                   "mx",
                                   "mx:block_format=mxint8",
                                   "mx:block_format=mxfp4",
                                   "nvfp4",
                                   "nvfp4:rounding=ties_to_even,rht=false",
                                   "mx:block_format=bfp:4:32"};
    // Then formats with one scale for more elements: the two 8-bit formats of hardware (the largest
    // number of e4m3fn is 448, of IEEE's e4m3 240), 8-bit formats with fewer exponent bits, and
    // 4-bit formats. A scale matters little to a format with a wide range, so e5m2 has only the
    // plain schemes.
    struct Format {
        std::string name;
        bool plain,  // listed without a scale, with one scale for all steps, and with APS's scales
            rungs;   // listed with the further rungs of the ladder in lists.h
        int block;   // number of elements that share the finest scale; 0: no scale per block
        bool room;   // listed with room for the sum of fewer workers, too
    };
    for (const auto& [f, plain, rungs, block, room] :
         {Format{"e5m2", true, false, 0, false}, Format{"e4m3fn", true, true, 32, false},
          Format{"e3m4", true, true, 32, true}, Format{"e2m5finite", false, false, 32, true},
          Format{"e2m1fn", false, false, 16, true}, Format{"e3m0noinf", false, false, 16, true}}) {
        const std::string constant = "loss_scaling:" + f + ",scale=largest", aps = "aps:" + f,
                          tight = aps + ",rule=tight";
        if (plain)
            for (const std::string& spec : {"none:" + f, constant, aps}) specs.push_back(spec);
        if (rungs)
            for (const std::string& spec :
                 {constant + ",rule=tight", tight + ",unit=model", "stochastic:" + f})
                specs.push_back(spec);
        if (block != 0)
            for (const std::string& spec : {tight, tight + ",unit=" + std::to_string(block)})
                specs.push_back(spec);
        if (room) specs.push_back(specs.back() + ",headroom=sqrt_workers,overflow=saturate");
        if (f == "e3m4") specs.push_back("loss_scaling:e3m4,scale=best,overflow=saturate");
    }
    for (const char* spec :
         {"dynamic_loss_scaling:e5m2", "dynamic_loss_scaling:e4m3", "qsgd", "qsgd:levels=127"})
        specs.emplace_back(spec);
    for (std::string& spec : specs) spec = parse_scheme(spec).spec;
    return specs;
}

std::vector<std::string> all_schemes() {
    std::vector<std::string> specs = main_schemes();
    for (const char* spec : {"none:e4m3",
                             "loss_scaling:e4m3,scale=largest",
                             "aps:e4m3",
                             "loss_scaling:e5m2,scale=largest,rule=tight",
                             "aps:e5m2,rule=tight,unit=model",
                             "aps:e5m2,rule=tight",
                             "aps:e5m2,rounding=stochastic",
                             "stochastic:e5m2",
                             "none:e3m0",
                             "loss_scaling:e3m0,scale=largest",
                             "aps:e3m0",
                             "aps:e4m3fn,rounding=stochastic",
                             "aps:e3m4,rounding=stochastic",
                             "aps:e3m0,rounding=stochastic",
                             "stochastic:e3m0",
                             "aps:e4m3,rounding=stochastic",
                             "stochastic:e4m3",
                             "loss_scaling:e4m3,scale=largest,headroom=one",
                             "loss_scaling:e3m4,scale=largest,headroom=one",
                             "aps:e4m3,headroom=one",
                             "aps:e3m4,headroom=one",
                             "dynamic_loss_scaling:fp16",
                             "aps:e4m3,accumulate=fp32",
                             "aps:e3m4,rule=tight,unit=bucket:25MB",
                             "aps:e3m4,rule=tight,unit=row",
                             "aps:e3m4,rule=tight,unit=1024",
                             "aps:e3m4,rule=tight,unit=16",
                             "aps:e3m4,rule=tight,unit=model,delay=1",
                             "hybrid(last=none:fp16;else=aps:e4m3)",
                             "cpd:e4m3",
                             "deepspeed_loss_scaling:fp16",
                             "logmax_loss_scaling:fp16",
                             "enhanced_loss_scaling:e5m2",
                             "adaptive_loss_scaling:fp16",
                             "hfp8:e5m2",
                             "delayed_scaling:e5m2",
                             "current_scaling:e5m2",
                             "fp8_allreduce:e4m3fn",
                             "fp8_two_shot:e4m3fn",
                             "quickreduce",
                             "natural",
                             "terngrad",
                             "zipml:bucket=512",
                             "bit_centering",
                             "fractrain",
                             "error_feedback(sign)",
                             "sign",
                             "sign_vote",
                             "onebit_adam",
                             "birder",
                             "multipoint",
                             "residual(sign)",
                             "fft_sparse",
                             "top_k",
                             "error_feedback(top_k)",
                             "error_feedback(powersgd)",
                             "powersgd",
                             "thc",
                             "integer_allreduce:bits=8",
                             "zero_blocks",
                             "ok_topk:warmup=0"})
        specs.emplace_back(spec);
    std::set<std::string> known;
    for (std::string& spec : specs) {
        const Scheme scheme = parse_scheme(spec);
        spec = scheme.spec;
        known.insert(scheme.name);
    }
    for (const SchemeDefinition& d : scheme_definitions())
        if (!known.contains(std::string(d.name))) specs.push_back(parse_scheme(usual(d)).spec);
    return specs;
}

}  // namespace apscope::detail
