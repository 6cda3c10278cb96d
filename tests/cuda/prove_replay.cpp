// A replay's work on the GPU against the same steps in the host's memory, which
// tests/analysis/cuda/test_cuda_replay.cpp proves equal to a replay without a device.
#include <cmath>

#include "analysis/cuda/replay_cuda.h"
#include "core/named_formats.h"
#include "gpu.h"
#include "jobs.h"
#include "tests/support/host_queue.h"

namespace apscope::detail::gpu {

namespace {

struct Asked {
    const char *format, *accumulate;
    RoundingMode wire, hops;
    double scale;
    Overflow overflow;
    int draws;
    bool gathers;
};

WireTask make_wire(const FloatFormat& format, const Projection& projection, double scale) {
    WireTask wire{{make_cast<double>(format, projection), scale, 1.0, format.smallest_normal(),
                   format.largest()},
                  projection,
                  std::nullopt,
                  0.0};
    int exponent = 0;
    if (std::frexp(scale, &exponent) != 0.5) return wire;
    wire.inverse = 1.0 / scale;
    wire.narrow = scaled_format(format, exponent - 1);
    return wire;
}

RowTask make_task(const Asked& a) {
    const FloatFormat format = parse_format(a.format), accumulate = parse_format(a.accumulate);
    const Projection wire{a.wire, a.overflow}, hops{a.hops, a.overflow};
    RowTask task;
    task.wires = {make_wire(format, wire, a.scale)};
    const std::optional<FloatFormat>& narrow = task.wires[0].narrow;
    const int k = a.gathers ? 0 : std::ilogb(a.scale);
    const std::optional<Fp32Sums> sums =
        narrow ? fp32_sums(a.gathers ? *narrow : format, accumulate, hops, k, 65) : std::nullopt;
    if (sums && (sums->in_hardware || sums->step))
        task.step = sums->step.value_or(StepCast<float>{});
    task.accumulator = make_accumulator(accumulate, hops).cast();
    const bool wire_draws = is_stochastic(a.wire), hops_draw = is_stochastic(a.hops);
    task.wire_draws = wire_draws;
    task.wants_moments = wire_draws || hops_draw;
    task.reduced.push_back({Topology{}, true, wire_draws, false});
    const std::vector<const char*> crossed{"sequential", "ring", "tree", "hierarchical:4",
                                           "sequential+kahan"};
    for (const char* name : a.gathers ? std::vector<const char*>{"sequential"} : crossed) {
        Topology topology = parse_topology(name);
        if (a.gathers) topology.kind = Topology::Kind::gather;
        task.reduced.push_back({topology, false, hops_draw, wire_draws && !hops_draw});
    }
    for (int d = 0; d < a.draws; ++d)
        task.keys.push_back(replay_key(5, "weight", 3, static_cast<std::uint32_t>(d)));
    return task;
}

// Two phases. If the messages have two scales in turn, there is one per worker. The sums' scale
// depends on their largest magnitude, and is a power of two in every second shard only.
RowTask in_phases(const char* name, RoundingMode rounding, int wires, bool encodes_sums) {
    const FloatFormat format = parse_format(name);
    const Projection projection{rounding, Overflow::saturate};
    RowTask task;
    for (int w = 0; w < wires; ++w)
        task.wires.push_back(make_wire(format, projection, w % 2 == 0 ? 64.0 : 3.0));
    task.phases.emplace();
    if (encodes_sums) {
        task.phases->encoding = [=](float largest, std::uint64_t nonfinite, std::size_t count) {
            const double odd = (nonfinite + count) % 2 == 1 ? 1.5 : 1.0;
            return make_wire(format, projection,
                             odd * std::exp2(3 - std::ilogb(std::max(largest, 1e-30f))));
        };
    }
    task.wire_draws = is_stochastic(rounding);
    task.reduced = {{Topology{}, true}, {Topology{}, false}};
    task.keys = {replay_key(5, "weight", 3, 0)};
    return task;
}

// Messages that are gathered, or in two phases.
void reduce(RowTask& task, bool draws, bool in_phases) {
    if (in_phases) task.phases.emplace();
    task.step.emplace();
    task.wire_draws = task.wants_moments = draws && !in_phases;
    task.reduced = {{Topology{}, true, task.wants_moments, false},
                    {Topology{Topology::Kind::gather, 0, false}, false}};
    task.keys = {replay_key(5, "weight", 3, 0)};
}

// Messages in blocks of a format; in two phases the sums are encoded, too.
RowTask in_blocks(const char* name, RoundingMode rounding, std::size_t workers, bool in_phases,
                  bool rotates = false) {
    const Projection projection{rounding, Overflow::saturate};
    RowTask task;
    task.blocks = BlockTask{parse_block_format(name), projection, {}, rotates};
    if (task.blocks->format.tensor_scale)
        for (std::size_t w = 0; w < workers; ++w)
            task.blocks->amax.push_back(1.0f + static_cast<float>(w % 3));
    reduce(task, is_stochastic(rounding), in_phases);
    if (in_phases) task.phases->blocks = BlockTask{task.blocks->format, projection, {}, rotates};
    return task;
}

// Uniform levels under the norms of buckets.
RowTask in_levels(const UniformGrid& grid, bool in_phases) {
    RowTask task;
    task.uniform = grid;
    reduce(task, true, in_phases);
    if (in_phases) task.phases->uniform = grid;
    return task;
}

// A scale for each unit of elements, agreed in a ring, or of each worker in two phases. The scale
// changes in the middle of a binade.
RowTask in_units(const char* name, RoundingMode rounding, std::size_t unit, bool in_phases) {
    const FloatFormat format = parse_format(name);
    const Projection projection{rounding, Overflow::saturate};
    WireTask wire = make_wire(format, projection, 1.0);
    wire.narrow.reset();
    const auto shift = [](double amax) {
        return amax == 0.0 ? 0 : 4 - std::ilogb(std::max(amax, 0x1p-126) * 1.25);
    };
    RowTask task;
    const auto of_fp32 =
        rounding == RoundingMode::ties_to_even ? std::optional(format) : std::nullopt;
    task.units = UnitTask{wire, of_fp32, unit, shift, !in_phases};
    if (in_phases) {
        task.phases.emplace();
        task.phases->units = UnitTask{wire, of_fp32, unit, shift};
    }
    task.accumulator = make_accumulator(format, projection).cast();
    task.wire_draws = task.wants_moments = is_stochastic(rounding) && !in_phases;
    task.reduced = {{Topology{}, true, task.wants_moments, false}, {parse_topology("ring"), false}};
    task.keys = {replay_key(5, "weight", 3, 0)};
    return task;
}

// Every number of the totals, without the signs and payloads of NaNs, which no result shows.
std::vector<double> numbers(const std::vector<RowTotals>& totals) {
    std::vector<double> all;
    const auto add = [&](double v) {
        all.push_back(v == v ? v : bits_cast<double>(nan_bits<double>));
    };
    const auto add_statistics = [&](const ErrorStatistics& s) {
        for (const double sum : s.sums) add(sum);
        for (const std::uint64_t count : {s.count, s.counted, s.nonzero, s.underflow, s.subnormal,
                                          s.saturated, s.overflow, s.nan, s.infinite}) {
            add(static_cast<double>(count));
        }
        add(s.over_noise.sum_log2);
        add(static_cast<double>(s.over_noise.blocks));
        add(s.max_ulp);
        add(s.moments_defined);
    };
    for (const RowTotals& t : totals) {
        for (const ErrorStatistics& s : t.wire) add_statistics(s);
        for (const BlockUse& use : t.blocks) {
            for (const double v :
                 {static_cast<double>(use.blocks), static_cast<double>(use.saturated),
                  static_cast<double>(use.range_sum), static_cast<double>(use.range_max),
                  static_cast<double>(use.scale_min), static_cast<double>(use.scale_max)})
                add(v);
        }
        add(t.least_exponent);
        add(t.largest_exponent);
        add(t.wire_moments_defined);
        for (const RowTotals::Reduced& r : t.reduced) {
            add_statistics(r.statistics);
            for (const double v : r.draw_error) add(v);
            for (const double v : r.left_out) add(v);
            add(r.variance_sum);
        }
    }
    return all;
}

}  // namespace

std::vector<RowTask> replay_tasks() {
    using M = RoundingMode;
    std::vector<RowTask> tasks;
    for (const Asked& a : {
             Asked{"e4m3", "e4m3", M::ties_to_even, M::ties_to_even, 64.0, Overflow::ieee, 1,
                   false},
             Asked{"e5m2", "e5m2", M::stochastic, M::stochastic, 1000.0, Overflow::ieee, 1, false},
             Asked{"fp16", "fp16", M::ties_to_even, M::ties_to_even, 1024.0, Overflow::ieee, 1,
                   false},
             Asked{"e4m3fn", "bf16", M::stochastic, M::to_odd, 0.25, Overflow::saturate, 4, false},
             Asked{"bf16", "fp32", M::toward_negative, M::stochastic_b, 1.0, Overflow::ieee, 1,
                   false},
             Asked{"e4m3", "fp32", M::stochastic, M::ties_to_even, 16.0, Overflow::ieee, 1, true},
         }) {
        tasks.push_back(make_task(a));
    }
    return tasks;
}

std::vector<Job> replay_jobs(std::size_t n) {
    constexpr std::size_t workers = 8;
    const auto rows = std::make_shared<std::vector<std::vector<float>>>();
    for (std::size_t w = 0; w < workers; ++w)
        rows->push_back(random_numbers(n / workers, 10, static_cast<std::uint32_t>(w + 1)));
    std::vector<Job> jobs;
    const auto add = [&](const char* name, const RowTask& task) {
        jobs.push_back({std::string("replay: ") + name, static_cast<double>(n),
                        8 * static_cast<double>(n), [=] {
                            const std::vector<std::span<const float>> given(rows->begin(),
                                                                            rows->end());
                            make_row_device(0)->run(given, workers, batch_noise(given, true).blocks,
                                                    {&task, 1});
                        }});
    };
    const std::vector<RowTask> in_orders = replay_tasks();
    constexpr RoundingMode nearest = RoundingMode::ties_to_even;
    add("e4m3, exact and 5 orders", in_orders[0]);
    add("e5m2, stochastic, exact and 5 orders", in_orders[1]);
    add("e4m3, two phases", in_phases("e4m3fn", nearest, 1, true));
    add("e4m3, a scale for 16 elements, exact and ring", in_units("e4m3", nearest, 16, false));
    add("e4m3, a scale for 16 elements, two phases", in_units("e4m3", nearest, 16, true));
    add("mxfp8_e4m3, gathered", in_blocks("mxfp8_e4m3", nearest, workers, false));
    add("mxfp8_e4m3, two phases", in_blocks("mxfp8_e4m3", nearest, workers, true));
    add("nvfp4, stochastic, gathered",
        in_blocks("nvfp4", RoundingMode::stochastic, workers, false));
    add("nvfp4, stochastic, rotated, gathered",
        in_blocks("nvfp4", RoundingMode::stochastic, workers, false, true));
    add("nvfp4, stochastic, rotated, two phases",
        in_blocks("nvfp4", RoundingMode::stochastic, workers, true, true));
    add("qsgd, gathered", in_levels({}, false));
    add("qsgd, two phases", in_levels({}, true));
    return jobs;
}

bool prove_replay() {
    const std::unique_ptr<RowDevice> device = make_row_device(0);
    test::HostRows host({}, std::uint64_t{1} << 24);
    const std::vector<float> edges = edge_numbers();
    bool right = true;
    for (const std::size_t workers : {1u, 3u, 8u, 65u}) {
        std::vector<RowTask> tasks = replay_tasks();
        for (const bool encodes_sums : {false, true}) {
            for (const RoundingMode rounding :
                 {RoundingMode::ties_to_even, RoundingMode::stochastic}) {
                tasks.push_back(in_phases("e4m3fn", rounding, 1, encodes_sums));
                tasks.push_back(
                    in_phases("e5m2", rounding, static_cast<int>(workers), encodes_sums));
            }
        }
        for (const bool in_phases : {false, true}) {
            for (const RoundingMode rounding :
                 {RoundingMode::ties_to_even, RoundingMode::stochastic}) {
                for (const char* name : {"mxfp8_e4m3", "mxint8", "nvfp4", "blocks:e2m1,block=128"})
                    tasks.push_back(in_blocks(name, rounding, workers, in_phases));
                tasks.push_back(in_units("e4m3", rounding, 16, in_phases));
                tasks.push_back(in_blocks("nvfp4", rounding, workers, in_phases, true));
            }
            tasks.push_back(in_levels({}, in_phases));
            tasks.push_back(in_levels({127, 64, 16, BucketNorm::max}, in_phases));
        }
        for (const std::size_t n :
             {std::size_t{1}, std::size_t{40},
              (small ? std::size_t{1} : std::size_t{3}) * 4096 + 905, std::size_t{1} << 17}) {
            if (n * workers > (small ? 100000u : 1u << 20)) continue;
            for (const bool with_edges : {false, true}) {
                std::vector<std::vector<float>> rows;
                for (std::size_t w = 0; w < workers; ++w) {
                    rows.push_back(random_numbers(n, 11, static_cast<std::uint32_t>(w + 1)));
                    for (std::size_t i = 0; with_edges && i < n; i += 5)
                        rows[w][i] = edges[(i * 131 + w * 4099) % edges.size()];
                }
                const std::vector<std::span<const float>> given(rows.begin(), rows.end());
                const std::vector<double> noise = batch_noise(given, workers != 3).blocks;
                const double divisor = workers == 3 ? 1.0 : static_cast<double>(workers);
                right = report("replay of " + std::to_string(workers) + " workers, " +
                                   std::to_string(n) + (with_edges ? " edge numbers" : " numbers"),
                               numbers(host.run(given, divisor, noise, tasks)),
                               numbers(device->run(given, divisor, noise, tasks))) &&
                        right;
            }
        }
    }
    return right;
}

}  // namespace apscope::detail::gpu
