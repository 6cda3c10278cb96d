// The words that functions take as text, as constants, so that a typing error stops the compiler:
// allreduce(rows, format, {.topology = apscope::topology::tree}).
#pragma once

#include <cstddef>
#include <string>

namespace apscope {

/// Reduction orders (docs/definitions.md, section 1), for AllreduceOptions, ReplayOptions,
/// ExchangeInputs and exchanges of training. Those of a scheme's two phases, two_phase and
/// reduce_scatter, are not for allreduce(); keys (`two_phase,sum=exact`) are given as text.
namespace topology {
inline constexpr const char *exact = "exact", *sequential = "sequential",
                            *sequential_kahan = "sequential+kahan", *ring = "ring", *tree = "tree",
                            *butterfly = "butterfly", *fp32_accumulate = "fp32_accumulate",
                            *pat = "pat", *nccl_ring = "nccl:ring", *nccl_tree = "nccl:tree",
                            *nccl_symmetric = "nccl:symmetric", *nccl_nvls = "nccl:nvls",
                            *torch_one_shot = "torch:one_shot", *torch_two_shot = "torch:two_shot",
                            *two_phase = "two_phase", *reduce_scatter = "reduce_scatter";
/// Groups of `group` consecutive workers, then the groups' sums.
[[nodiscard]] inline std::string hierarchical(int group) {
    return "hierarchical:" + std::to_string(group);
}
[[nodiscard]] inline std::string hierarchical_kahan(int group) {
    return hierarchical(group) + "+kahan";
}
}  // namespace topology

/// Orders of a sum, for Summation.
namespace order {
inline constexpr const char *sequential = "sequential", *pairwise = "pairwise", *kahan = "kahan",
                            *exact = "exact";
/// Sums of `size` terms each, then their sum.
[[nodiscard]] inline std::string chunked(std::size_t size) {
    return "chunked:" + std::to_string(size);
}
/// As a matrix unit adds products: a name of `apscope units`, or `k=16,fraction=25,result=23`.
[[nodiscard]] inline std::string unit(const std::string& name) { return "unit:" + name; }
}  // namespace order

/// Operations of arithmetic().
namespace operation {
inline constexpr const char *add = "add", *subtract = "subtract", *multiply = "multiply",
                            *divide = "divide", *sqrt = "sqrt", *fma = "fma";
}  // namespace operation

/// Kinds of a trace's tensors, for Trace::read() and TraceWriter::add().
namespace kind {
inline constexpr const char *gradient = "gradient", *weights = "weights",
                            *full_batch = "full_batch",
                            *activation_gradient = "activation_gradient",
                            *layer_input = "layer_input";
}  // namespace kind

}  // namespace apscope
