#include "jobs.h"

#include <memory>

#include "analysis/cuda/error_cuda.h"
#include "core/named_formats.h"
#include "emulation/cuda/allreduce/phases_cuda.h"
#include "emulation/cuda/allreduce/reduce_cuda.h"
#include "emulation/cuda/arithmetic/matmul_cuda.h"
#include "emulation/cuda/blocks/blocks_cuda.h"
#include "emulation/cuda/cast/quantize_cuda.h"
#include "gpu.h"

namespace apscope::detail::gpu {

namespace {

struct Arrays {
    Arrays(std::size_t n, std::size_t products)
        : x(random_numbers(std::max(n, 2 * products), 10, 1)), y(std::max(n, products)),
          halves(2 * products), eights(2 * products), codes(n), scales(n / 16), sums(n / 8) {
        for (const auto& [name, to] : {std::pair("fp16", &halves), std::pair("e4m3fn", &eights)})
            quantize_on_device(x.get(), to->get(), 2 * products, parse_format(name),
                               {RoundingMode::ties_to_even, Overflow::saturate}, 1, nullptr);
    }

    Array<float> x, y;
    Array<float> halves, eights;  // numbers of x in fp16 and in FP8
    Array<std::uint8_t> codes, scales;
    Array<double> sums;
};
using Shared = std::shared_ptr<const Arrays>;

void add_casts(std::vector<Job>& jobs, std::size_t n, const Shared& a) {
    const FloatFormat f = parse_format("e4m3");
    const auto size = static_cast<double>(n);
    for (const RoundingMode mode :
         {RoundingMode::ties_to_even, RoundingMode::toward_zero, RoundingMode::stochastic,
          RoundingMode::stochastic_b, RoundingMode::stochastic_exact}) {
        for (const int random_bits : {16, 32}) {
            if (random_bits == 16 && mode != RoundingMode::stochastic) continue;
            const Projection p{mode, Overflow::ieee, random_bits};
            jobs.push_back(
                {"quantize e4m3, " + std::string(to_string(mode)) +
                     (is_stochastic(mode) ? ", " + std::to_string(random_bits) + " bits" : ""),
                 size, 8 * size,
                 [=] { quantize_on_device(a->x.get(), a->y.get(), n, f, p, 1, nullptr); }});
        }
    }
    jobs.push_back({"encode e4m3", size, 5 * size, [=] {
                        encode_on_device(a->x.get(), a->codes.get(), n, f, {}, std::nullopt, 1,
                                         nullptr);
                    }});
    jobs.push_back({"decode e4m3", size, 5 * size,
                    [=] { decode_on_device(a->codes.get(), a->y.get(), n, f, false, nullptr); }});
    jobs.push_back({"quantize and error statistics, e4m3", size, 8 * size, [=] {
                        quantize_statistics_on_device(a->x.get(), a->y.get(), n, f, {}, 1, nullptr);
                    }});
}

void add_blocks(std::vector<Job>& jobs, std::size_t n, const Shared& a) {
    const auto size = static_cast<double>(n);
    const Projection p{RoundingMode::ties_to_even, Overflow::saturate};
    for (const char* name : {"mxfp8_e4m3", "nvfp4"}) {
        const BlockFormat blocks = parse_block_format(name);
        jobs.push_back({std::string("quantize ") + name, size, 8 * size, [=] {
                            quantize_blocks_on_device(a->x.get(), a->y.get(), {1, n, 1}, blocks, p,
                                                      1, nullptr);
                        }});
        jobs.push_back({std::string("encode ") + name, size, 5 * size, [=] {
                            encode_blocks_on_device(a->x.get(), a->codes.get(), a->scales.get(),
                                                    {1, n, 1}, blocks, p, 1, nullptr);
                        }});
    }
}

void add_sums(std::vector<Job>& jobs, std::size_t n, const Shared& a) {
    const FloatFormat f = parse_format("e4m3");
    const auto size = static_cast<double>(n);
    for (const char* topology : {"ring", "tree", "sequential+kahan"}) {
        AllReduceOptions options;
        options.topology = parse_topology(topology);
        jobs.push_back({std::string("all-reduce of 8 rows, e4m3, ") + topology, size,
                        (8 * 4 + 8) * size / 8, [=] {
                            all_reduce_on_device(a->x.get(), 8, a->sums.get(), n / 8, f, options,
                                                 {}, nullptr);
                        }});
    }
    // The sum is written, and read again once its scale is known.
    const std::vector<PhaseEncoding> encodings(8, {f, {}, 0x1p10});
    jobs.push_back({"two phases of 8 rows, e4m3", size, (8 * 4 + 4 + 8) * size / 8, [=] {
                        add_messages_on_device(a->x.get(), n / 8, encodings, {}, a->y.get(),
                                               nullptr);
                        encode_sums_on_device(a->y.get(), n / 8, 8, encodings, {}, 8.0,
                                              a->y.get() + n / 8, nullptr);
                    }});
}

void add_products(std::vector<Job>& jobs, std::size_t side, const Shared& a) {
    const auto add = [&](const SumOptions& options, const std::string& name,
                         const Array<float> Arrays::* numbers = & Arrays::x) {
        jobs.push_back({"matmul " + std::to_string(side) + "^3, " + name,
                        static_cast<double>(side) * static_cast<double>(side * side), 0, [=] {
                            const float* const x = (a.get()->*numbers).get();
                            matmul_on_device(x, x + side * side, nullptr, a->y.get(), 1, side, side,
                                             side, options, nullptr);
                        }});
    };
    for (const char* order : {"sequential", "chunked:64", "pairwise", "kahan"}) {
        for (const char* product : {"", "e4m3"}) {
            SumOptions options;
            options.order = parse_sum_order(order);
            options.format = parse_format("fp16");
            if (*product != '\0') options.product = parse_format(product);
            add(options, std::string("fp16, ") + order + ", product " +
                             (*product != '\0' ? product : "exact"));
        }
    }
    for (const auto& [unit, numbers] :
         {std::pair("unit:h100", &Arrays::halves), std::pair("unit:h100:fp8", &Arrays::eights)}) {
        SumOptions options;
        options.order = parse_sum_order(unit);
        options.format = parse_format("fp32");
        add(options, unit, numbers);
    }
    // The same rules for any fp32 numbers, which tiles do not serve.
    for (const char* order :
         {"unit:k=16,fraction=25,result=23", "unit:k=32,fraction=13,result=13"}) {
        SumOptions options;
        options.order = parse_sum_order(order);
        options.format = parse_format("fp32");
        add(options, std::string("fp32, ") + order);
    }
}

}  // namespace

std::vector<Job> kernel_jobs(std::size_t n, std::size_t side) {
    const auto arrays = std::make_shared<const Arrays>(n, side * side);
    std::vector<Job> jobs;
    add_casts(jobs, n, arrays);
    add_blocks(jobs, n, arrays);
    add_sums(jobs, n, arrays);
    add_products(jobs, side, arrays);
    return jobs;
}

}  // namespace apscope::detail::gpu
