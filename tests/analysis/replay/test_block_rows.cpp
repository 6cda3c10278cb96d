// Schemes that run piece by piece give the same rows and memory, bit for bit, as with the whole
// tensor as one piece: lengths near a block's, workers 1 to 5, special values, several topologies,
// several steps, one draw and three. So do reductions that encode the sum of complete rows.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/replay/tensor_rows.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/lists.h"
#include "emulation/schemes/two_phase.h"
#include "tests/support/gradients.h"
#include "tests/support/result_numbers.h"

using namespace apscope;
using namespace apscope::detail;
using namespace apscope::detail::test;

namespace {

struct Case {
    std::size_t n;
    int workers, draws;
    bool special, divide;
};

void expect_same(const SchemeParts& blocks, const Case& c, const std::string& name) {
    SchemeParts whole = blocks;
    whole.run = whole_row;
    whole.encoding.whole_sum.reset();
    std::vector<Topology> topologies;
    for (const char* t : {"ring", "tree", "hierarchical:2+kahan"})
        if (topologies.empty() || !blocks.choice.looks_ahead)
            topologies.push_back(parse_topology(t));
    State by_blocks, by_tensors;
    for (int number = 0; number < 3; ++number) {
        std::vector<std::vector<float>> rows;
        std::vector<std::span<const float>> spans;
        for (int w = 0; w < c.workers; ++w)
            rows.push_back(gradients(c.n, static_cast<std::uint64_t>(100 * number + w),
                                     c.special ? GradientKind::special : GradientKind::ordinary));
        for (const auto& row : rows) spans.emplace_back(row);
        ItemContext item;
        item.tensor = "x";
        item.step_number = number;
        item.divide = c.divide;
        item.seed = 7;
        item.draws = c.draws;
        item.topologies = topologies;
        item.gradients = spans;
        TrainingStep step;
        const auto n = static_cast<std::int64_t>(c.n);
        step.shape = n > 0 && n % 5 == 0 ? std::vector<std::int64_t>{5, n / 5}
                                         : std::vector<std::int64_t>{n};
        step.number = number;
        step.index = static_cast<std::size_t>(number);
        step.workers = c.workers;
        step.key = item.key(0);
        step.loss = 1.0;
        BlockBuffers buffers(item.workers());
        const std::vector<ResultRow> found = tensor_rows(blocks, step, by_blocks, item, buffers);
        const std::vector<ResultRow> wanted = tensor_rows(whole, step, by_tensors, item, buffers);
        test::expect_same(found, wanted, name + " step " + std::to_string(number));
        const NamedRows a = by_blocks.rows(), b = by_tensors.rows();
        ASSERT_EQ(a.size(), b.size()) << name;
        for (const auto& [part, row] : b) {
            ASSERT_TRUE(a.contains(part)) << name << " " << part;
            ASSERT_EQ(a.at(part).size(), row.size()) << name << " " << part;
            for (std::size_t i = 0; i < row.size(); ++i) {
                ASSERT_EQ(bits_cast<std::uint64_t>(a.at(part)[i]), bits_cast<std::uint64_t>(row[i]))
                    << name << " " << part << " " << i;
            }
        }
    }
}

constexpr const char* specs[] = {
    "sign",
    "sign:scale=l2,padding=workers",
    "sign_vote",
    "sign_vote:momentum=0.9,tie=zero",
    "onebit_adam",
    "onebit_adam:beta1=0.5,warmup=1,warmup_format=fp16",
    "qsgd",
    "qsgd:bucket=300,norm=max",
    "qsgd:bucket=5000,levels=3,random_bits=9",
    "qsgd:bucket=100,code=elias",
    "terngrad",
    "terngrad:clip=0,random_bits=53",
    "integer_allreduce",
    "integer_allreduce:bits=8,chunk=100,rounding=stochastic,scale=real",
    "current_scaling:e4m3,block=100",
    "current_scaling:e4m3,agree=local,rounding=stochastic",
    "current_scaling:e4m3,block=100,nonfinite=one,rounding=stochastic",
    "mx:block_format=mxfp4,nonfinite=torchao,rounding=stochastic",
    "mx:block=48,rule=nearest,nonfinite=transformer_engine",
    "nvfp4:rounding=stochastic,nonfinite=transformer_engine",
    "nvfp4:rht=false,scale=e5m3fnu,tensor_scale=false",
    "aps:e4m3,unit=100",
    "aps:e5m2,unit=6000,rounding=stochastic,delay=1",
    "aps:e5m2,unit=row,hop_rounding=stochastic,frozen=2",
    "fractrain:bits=4/12,epsilon=1",
    "bit_centering:period=2",
    "birder",
    "birder:group=2,amsgrad=true",
    "quickreduce:int8",
    "quickreduce:int4,input=bf16,overflow=ieee",
    "fp8_two_shot:e4m3fn,group=100",
    "fp8_allreduce:e4m3fn,agree=scale,headroom=one,no_amax=msamp",
    "fp8_allreduce:e4m3fn,auto_scaling=0.001",
    "zero_blocks:block=3",
    "cpd:e4m3",
    "cpd:e5m2,kahan=true,aps=false",
    "dynamic_loss_scaling:fp16,init=65536",  // drops steps
    "top_k",
    "top_k:keep=0.3,index=packed",
    "zipml:bucket=300",
    "zipml:levels=4,method=fast",
    "random_k",
    "random_k:keep=0.3,scale=false",
    "error_feedback(random_k:scale=false)",
    "multipoint",
    "multipoint:bits=1,points=3",
    "multipoint:zero=false,points=4,nmse=0.001",
    "residual(sign),points=3,nmse=0.2",
    "residual(aps:e4m3,unit=100)",
    "error_feedback(aps:e4m3,unit=row)",
    "residual(nvfp4:rounding=ties_to_even)",
    "error_feedback(top_k:keep=0.1)",
    "error_feedback(sign)",
    "error_feedback(aps:e4m3),decay=0.5",
    "error_feedback(stochastic:e4m3)",
    "error_feedback(sign_vote:momentum=0.9)",
    "error_feedback(aps:e5m2,unit=64,hop_rounding=stochastic)",
};

// The specs above, and for every other scheme of the registry its first spec in the list `all`, if
// it runs piece by piece.
std::vector<std::string> tested() {
    std::vector<std::string> found(std::begin(specs), std::end(specs));
    std::set<std::string> names;
    for (const char* spec : specs) names.insert(parse_scheme(spec).name);
    for (const std::string& spec : all_schemes()) {
        const Scheme scheme = parse_scheme(spec);
        if (scheme.is_policy() || !names.insert(scheme.name).second) continue;
        if (scheme.parts.run != whole_row) found.push_back(spec);
    }
    return found;
}

class BlockRows : public testing::TestWithParam<std::string> {};

void expect_same_at_lengths(const SchemeParts& scheme, const std::string& name) {
    const std::size_t lengths[] = {0, 1, 4095, 4096, 4097, 10000};
    for (std::size_t k = 0; k < std::size(lengths); ++k) {
        for (const bool special : {false, true}) {
            const int workers = static_cast<int>((k + (special ? 2 : 0)) % 5) + 1;
            expect_same(scheme, {lengths[k], workers, special ? 1 : 3, special, k % 2 == 0},
                        name + " of " + std::to_string(lengths[k]) + ", " +
                            std::to_string(workers) + " workers");
        }
    }
}

std::string letters(std::string name) {
    for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
}

TEST_P(BlockRows, AreThoseOfWholeTensors) {
    const SchemeParts scheme = parse_scheme(GetParam()).parts;
    ASSERT_NE(scheme.run, whole_row);
    expect_same_at_lengths(scheme, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Schemes, BlockRows, testing::ValuesIn(tested()),
                         [](const auto& info) { return letters(info.param); });

// Schemes whose messages are encoded piece by piece, and topologies that encode the sum as a whole.
constexpr const char* phased[] = {
    "qsgd:bucket=300,code=elias",
    "nvfp4",
    "nvfp4:rounding=ties_to_even,rht=false,agree=local",
    "nvfp4:four_over_six=mse,tensor_scale=true",
    "mx:block_format=mxfp4,nonfinite=torchao,rounding=stochastic",
    "mx:block=48,rule=nearest,nonfinite=transformer_engine",
    "aps:e4m3,unit=100",
    "aps:e5m2,unit=6000,rounding=stochastic,overflow=infinity",
    "current_scaling:e4m3,block=100,nonfinite=one,rounding=stochastic",
    "zipml:bucket=300",
    "sign:scale=l2",
    "mx:rounding=stochastic,correlated=true",
    "stochastic:e4m3",
};
constexpr const char* phases[] = {"two_phase", "reduce_scatter", "two_phase,own=exact,sum=bf16",
                                  "two_phase,sum=exact,phase2=(stochastic:e4m3)",
                                  "two_phase,phase2=(mx:rounding=stochastic)"};

SchemeParts in_phases(const std::string& spec, const std::string& topology) {
    const Scheme scheme = parse_scheme(spec);
    if (scheme.is_policy() || !has_two_phases(scheme.parts)) return {};
    SchemeParts parts =
        reduced_by(parse_topology(topology), std::make_shared<const Scheme>(scheme))->parts;
    parts.encoding.float_phases = nullptr;  // the composition, also of float grids
    return parts;
}

using SpecAndTopology = std::pair<std::string, std::string>;

// These in all topologies, and all other schemes of the list `all` in two phases.
std::vector<SpecAndTopology> tested_phases() {
    std::vector<SpecAndTopology> found;
    for (const char* spec : phased)
        for (const char* topology : phases) found.emplace_back(spec, topology);
    for (const std::string& spec : all_schemes())
        if (in_phases(spec, "two_phase").encoding.whole_sum) found.emplace_back(spec, "two_phase");
    return found;
}

class BlockPhases : public testing::TestWithParam<SpecAndTopology> {};

TEST_P(BlockPhases, AreThoseOfWholeTensors) {
    const auto& [spec, topology] = GetParam();
    const SchemeParts parts = in_phases(spec, topology);
    ASSERT_TRUE(parts.encoding.whole_sum);
    expect_same_at_lengths(parts, spec + " " + topology);
}

INSTANTIATE_TEST_SUITE_P(Schemes, BlockPhases, testing::ValuesIn(tested_phases()),
                         [](const auto& info) {
                             return std::to_string(info.index) + "_" +
                                    letters(info.param.first + " " + info.param.second);
                         });

}  // namespace
