// Makes the step of an all-reduce, and its program: values and sums are rounded in fp32 where that
// gives the same bits. Host only.
#pragma once

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "emulation/allreduce/fp32_sums.h"
#include "emulation/cast/cast_plan.h"
#include "emulation/cast/scaled_format.h"
#include "emulation/cuda/allreduce/reduce_cuda.h"
#include "emulation/cuda/allreduce/reduce_step.h"
#include "emulation/cuda/cast/step_choice.h"

namespace apscope::detail {

// How values and sums are rounded in fp32.
struct FloatReduce {
    FloatRounding leaf, sum;
    std::uint32_t zero_sign = sign_bit<float>;  // of the result, as in FloatSum
    bool steps() const {
        return leaf.way == FloatRounding::Way::step && sum.way == FloatRounding::Way::step;
    }
};

// The rounding to a format by its plan; nothing if only the rule serves it.
inline std::optional<FloatRounding> float_rounding(const FloatFormat& format,
                                                   const CastPlan<float>& plan,
                                                   const RandomStream& stream) {
    FloatRounding rounding;
    if (plan.path == CastPath::addition) {
        rounding.way = FloatRounding::Way::addition;
        rounding.addition = {plan.addition};
    } else if (const std::optional<SplitCast> split = split_cast(format, plan)) {
        rounding.way = FloatRounding::Way::split;
        rounding.split = {*split, stream};
    } else {
        return std::nullopt;
    }
    return rounding;
}

// Nothing if the values or the sums must be rounded by the rule. The scale is 2^k.
inline std::optional<FloatReduce> float_reduce(int workers, const FloatFormat& format,
                                               const HopTarget& hops,
                                               const AllReduceOptions& options, int k) {
    const std::optional<FloatFormat> sent = scaled_format(format, k);
    if (!options.input_cast || !sent) return std::nullopt;
    // The stream's worker and stage are set where it is used.
    const auto stream = [&](const Projection& p) {
        return array_stream(options.seed, p.drawn_bits());
    };
    FloatReduce made;
    const CastPlan<float> wire = make_plan<float>(*sent, options.projection);
    const bool exact = options.topology.kind == Topology::Kind::exact;
    if (!exact && workers > 1) {
        const std::optional<Fp32Sums> sums =
            fp32_sums(options.topology, format, hops.format, hops.projection, k, workers);
        if (!sums) return std::nullopt;
        if (sums->step) {
            made.sum.step.step = *sums->step;
        } else if (!sums->in_hardware) {
            const auto sum = float_rounding(scaled_format(hops.format, k).value(), sums->job.plan,
                                            stream(hops.projection));
            if (!sum) return std::nullopt;
            made.sum = *sum;
        }
        made.zero_sign = sums->zero_sign;
    } else if (!exact) {
        made.zero_sign = wire.cast.negative_zero;
    }
    // A step leaves the sign of a zero as it is, so -0 must be a value of the format, or +0 in the
    // result.
    const auto step = make_step<float>(*sent, options.projection);
    if (step && (step->zero_sign != 0 || made.zero_sign == 0)) {
        made.leaf.step.step = *step;
        return made;
    }
    const auto leaf = float_rounding(*sent, wire, stream(options.projection));
    if (!leaf) return std::nullopt;
    made.leaf = *leaf;
    return made;
}

struct ReducePlan {
    ReduceTask task;  // complete except for the device address of its program
    StackProgram program;
    bool exact, kahan;
    std::optional<FloatReduce> narrow;
    RuleLeaf leaf;  // if `narrow` is empty
    RuleSum sum;

    // Calls f with the step.
    template <class F>
    void with_step(const F& f) const {
        constexpr int deep = reduce_depth, few = register_depth;
        const auto step = [&]<int Size, int Depth, bool Kahan>(const auto& l, const auto& s) {
            using Step = ReduceStep<std::decay_t<decltype(l)>, std::decay_t<decltype(s)>, Size,
                                    Depth, Kahan>;
            f(Step{task, l, s});
        };
        if (!narrow) {
            if (exact) return step.template operator()<1, 1, false>(leaf, PlainSum{});
            const bool chain = program.depth == 1;
            if (kahan && chain) step.template operator()<1, 1, true>(leaf, sum);
            else if (kahan) step.template operator()<1, deep, true>(leaf, sum);
            else if (chain) step.template operator()<1, 1, false>(leaf, sum);
            else step.template operator()<1, deep, false>(leaf, sum);
            return;
        }
        const FloatLeaf<FloatRounding> any_leaf{narrow->leaf};
        if (exact) return step.template operator()<4, 1, false>(any_leaf, PlainSum{});
        if (!narrow->steps()) {
            const FloatSum<FloatRounding> any_sum{narrow->sum, narrow->zero_sign};
            if (program.depth == 1) step.template operator()<4, 1, false>(any_leaf, any_sum);
            else if (program.depth <= few)
                step.template operator()<4, few, false>(any_leaf, any_sum);
            else step.template operator()<4, deep, false>(any_leaf, any_sum);
            return;
        }
        const FloatLeaf<StepRounding> l{narrow->leaf.step};
        const FloatSum<StepRounding> s{narrow->sum.step, narrow->zero_sign};
        if (kahan && program.depth == 1) step.template operator()<4, 1, true>(l, s);
        else if (kahan) step.template operator()<4, kahan_depth, true>(l, s);
        else if (program.depth == 1) step.template operator()<4, 1, false>(l, s);
        else if (program.depth == 2) step.template operator()<4, 2, false>(l, s);
        else if (program.depth == 3) step.template operator()<4, 3, false>(l, s);
        else if (program.depth <= few) step.template operator()<4, few, false>(l, s);
        else step.template operator()<4, deep, false>(l, s);
    }
};

inline ReducePlan reduce_plan(const float* in, std::size_t workers, double* out, std::size_t n,
                              const FloatFormat& format, const AllReduceOptions& options,
                              const ReduceScale& scale) {
    const Topology& topology = options.topology;
    if (!topology.is_plain())
        throw std::invalid_argument("topology=" + topology.name() +
                                    " is not supported on a GPU; use the CPU, or one of "
                                    "sequential, ring, tree, hierarchical:G and butterfly");
    const HopTarget hops = checked_hops(workers, format, options);
    const int count = static_cast<int>(workers);
    StackProgram program = stack_program(reduction_program(topology, count), count);
    if (program.depth > reduce_depth) {
        throw std::invalid_argument(
            std::to_string(workers) +
            " workers are more than a GPU thread keeps partial sums for; use at most 65536");
    }
    int exponent = 0;
    const bool power_of_two = std::frexp(scale.scale, &exponent) == 0.5;
    const bool exact = topology.kind == Topology::Kind::exact;
    std::optional<FloatReduce> narrow;
    if (power_of_two) narrow = float_reduce(count, format, hops, options, exponent - 1);
    // Kahan's sums in other modes than ties to even, and in deeper stacks, use the rule.
    if (topology.kahan && narrow && (!narrow->steps() || program.depth > kahan_depth))
        narrow.reset();
    const PhiloxKey key = seed_key(options.seed);
    // Values that are rounded in fp32 are not scaled.
    const double divisor = narrow ? 1.0 : scale.scale;
    constexpr int group = 4;
    const bool aligned = n % group == 0 && is_aligned<float, group>(in);
    return {{in, n, n * sizeof(float), count, aligned, topology.kind == Topology::Kind::ring,
             n / workers, static_cast<std::uint32_t>(n % workers), out, divisor,
             power_of_two ? 1.0 / divisor : 0.0, scale.divisor, nullptr,
             static_cast<int>(program.instructions.size()) - 1},
            std::move(program),
            exact,
            topology.kahan,
            narrow,
            {options.input_cast, scale.scale, make_cast<double>(format, options.projection), key},
            {make_accumulator(hops.format, hops.projection).cast(), key}};
}

}  // namespace apscope::detail
