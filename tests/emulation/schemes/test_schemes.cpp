// Scales by integer arithmetic, the GradScaler state machine, specs that round-trip.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "core/rounding.h"
#include "emulation/schemes/codecs/uniform_row.h"
#include "emulation/schemes/definition.h"
#include "emulation/schemes/lookahead.h"
#include "emulation/schemes/shared/headroom.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

SelectionInput one_tensor(std::vector<double> amax, int workers, std::uint64_t nonfinite = 0) {
    SelectionInput input{amax.size(), 1, workers, {}, {"x"}, {}};
    for (const double a : amax) input.statistics.push_back({a, nonfinite, 1, 0.0, 0.0, 0.0});
    return input;
}

std::vector<Decision> decide(const Scheme& scheme, const SelectionInput& input) {
    State state;
    return scheme.parts.choice.choose(input, state);
}

Message one_message(const Scheme& scheme, const Row& x) {
    const SchemeParts& parts = scheme.parts;
    const TrainingStep step;
    const Parameters theta;
    const Row own =
        parts.choice.measure ? parts.choice.measure({step, theta, RowReader::of(x)}) : Row();
    Message m;
    parts.encoding.encode({step, theta, own, {0, x.size()}, x}, m);
    return m;
}

}  // namespace

TEST(Headroom, ExponentIsTheSmallestPowerThatHolds) {
    for (const int workers : {1, 2, 3, 5, 7, 8, 64, 1000, 65536}) {
        for (const float amax : {0x1p-149f, 0x1.8p-140f, 0x1p-126f, 0x1.fffffep-1f, 1.0f,
                                 0x1.000002p0f, 3.0f, 0x1.fffffep127f}) {
            for (const Headroom rule : {Headroom::workers, Headroom::sqrt_workers, Headroom::one}) {
                const int k = exponent_with_headroom(amax, workers, rule);
                // (H amax)^2 <= 2^2k, and not at k - 1: exact in long double (48 + 32 bits needed
                // at most for a square; 64 are there up to workers = 2^8, so compare halves).
                const long double a = amax;
                const long double h2 = rule == Headroom::one ? 1.0L
                                       : rule == Headroom::workers
                                           ? static_cast<long double>(workers) * workers
                                           : workers;
                const long double square = a * a * h2;
                if (static_cast<double>(workers) <= 255) {
                    EXPECT_LE(square, std::ldexp(1.0L, 2 * k))
                        << amax << " " << workers << " " << static_cast<int>(rule);
                    EXPECT_GT(square, std::ldexp(1.0L, 2 * k - 2))
                        << amax << " " << workers << " " << static_cast<int>(rule);
                } else if (rule == Headroom::workers) {
                    int e = 0;
                    const double f = std::frexp(static_cast<double>(amax) * workers, &e);  // exact
                    EXPECT_EQ(k, f == 0.5 ? e - 1 : e);
                }
            }
        }
    }
    EXPECT_EQ(exponent_with_headroom(1.0, 8, Headroom::workers),
              3);  // an exact power is not rounded up
    EXPECT_EQ(exponent_with_headroom(1.0, 8, Headroom::sqrt_workers), 2);  // sqrt(8) = 2.83 <= 4
    EXPECT_EQ(exponent_with_headroom(1.0, 9, Headroom::workers), 4);
}

TEST(Headroom, LargestShiftIsTheLargest) {
    for (const int workers : {1, 3, 8, 64}) {
        for (const float amax :
             {0x1p-149f, 0x1.8p-30f, 0.9f, 1.0f, 240.0f, 241.0f, 0x1.fffffep127f}) {
            for (const double limit : {240.0, 448.0, 65504.0, 0x1.fffffep127}) {
                const int s = largest_shift_within(amax, workers, Headroom::workers, limit);
                EXPECT_LE(std::ldexp(static_cast<double>(amax) * workers, s), limit);
                EXPECT_GT(std::ldexp(static_cast<double>(amax) * workers, s + 1), limit);
                const int r = largest_shift_within(amax, workers, Headroom::sqrt_workers, limit);
                const long double l = limit;
                EXPECT_LE(std::ldexp(static_cast<long double>(amax) * amax * workers, 2 * r),
                          l * l);
                EXPECT_GT(std::ldexp(static_cast<long double>(amax) * amax * workers, 2 * r + 2),
                          l * l);
            }
        }
    }
}

TEST(DynamicLossScaling, FollowsTheGoldenSequence) {
    // A sum of 10 in fp16 overflows if and only if 10 S >= 65520. So the scales 32768, 16384 and
    // 8192 of steps 0, 1 and 2 are halved, and 4096 does not overflow; then every interval has one
    // growth and one skipped step. Each of the four workers sends a quarter of the sum, which
    // overflows only at 32768.
    const Scheme scheme = parse_scheme("dynamic_loss_scaling:fp16,init=32768,growth_interval=3");
    const float quarter[] = {2.5f};
    const SumsAhead ahead(parse_topology("ring"), 1, [&](std::size_t, std::size_t) {
        return GradientRows{std::vector<std::span<const float>>(4, quarter)};
    });
    SelectionInput input = one_tensor(std::vector<double>(12, 2.5), 4);
    for (AgreedStatistics& s : input.statistics) s.largest_sum = 10.0;
    input.ahead = &ahead;
    const std::vector<Decision> d = decide(scheme, input);
    const double scales[] = {32768, 16384, 8192, 4096, 4096, 4096,
                             8192,  4096,  4096, 4096, 8192, 4096};
    const bool skipped[] = {true, true,  true,  false, false, false,
                            true, false, false, false, true,  false};
    for (std::size_t i = 0; i < 12; ++i) {
        EXPECT_EQ(d[i].scale, scales[i]) << i;
        EXPECT_EQ(d[i].skipped, skipped[i]) << i;
    }
}

TEST(DynamicLossScaling, SkipsNonFiniteStepsAndEndsAtZero) {
    const Scheme scheme = parse_scheme("dynamic_loss_scaling:fp16");
    for (const Decision& d : decide(scheme, one_tensor({1.0}, 2, 1))) EXPECT_TRUE(d.skipped);
    // 65536 halved 166 times is 0 in fp32.
    const std::vector<Decision> d = decide(scheme, one_tensor(std::vector<double>(170, 1.0), 2, 1));
    EXPECT_GT(d[165].scale, 0.0);
    EXPECT_EQ(d[166].scale, 0.0);
    EXPECT_TRUE(d[169].skipped);
}

TEST(Aps, ScalesTheTensorsSumIntoTheTopBinade) {
    const Scheme scheme = parse_scheme("aps:e4m3");  // E = 7
    const std::vector<Decision> d = decide(scheme, one_tensor({1.0, 1.01, 0.0, 0x1p-149}, 8));
    EXPECT_EQ(d[0].exponent, 7 - 3);
    EXPECT_EQ(d[1].exponent, 7 - 4);
    EXPECT_EQ(d[2].exponent, 0);            // all zero
    EXPECT_EQ(d[3].exponent, 7 + 126 - 3);  // below fp32's normal numbers: as if 2^-126
    // E depends on the format's largest value: for e4m3fn this is 448, so E = 8.
    EXPECT_EQ(decide(parse_scheme("aps:e4m3fn"), one_tensor({1.0}, 8))[0].exponent, 8 - 3);
}

TEST(LossScaling, BestHoldsEverySelectedTensor) {
    const Scheme tight = parse_scheme("loss_scaling:e4m3,scale=largest,rule=tight");
    for (const Decision& d : decide(tight, one_tensor({0.5, 3.0, 0.0, 1.0}, 8)))
        EXPECT_EQ(d.exponent, 3);  // 24 * 8 <= 240 < 24 * 16
    for (const Decision& d : decide(parse_scheme("loss_scaling:e4m3,scale=largest"),
                                    one_tensor({0.5, 3.0, 0.0, 1.0}, 8))) {
        EXPECT_EQ(d.exponent, 7 - 5);  // 16 < 24 <= 32: the rule of aps
    }
    EXPECT_EQ(decide(parse_scheme("loss_scaling:e4m3,scale=largest,rule=tight,headroom=one"),
                     one_tensor({3.0}, 8))[0]
                  .exponent,
              6);
    EXPECT_EQ(
        decide(parse_scheme("loss_scaling:e4m3,scale=largest"), one_tensor({0.0}, 8))[0].exponent,
        0);
    const Decision odd =
        decide(parse_scheme("loss_scaling:fp16,scale=1000"), one_tensor({1.0}, 8))[0];
    EXPECT_EQ(odd.scale, 1000.0);
    EXPECT_FALSE(odd.exponent.has_value());
}

TEST(SchemeSpec, IsCanonicalAndParsesBack) {
    for (const char* spec :
         {"none:e4m3", "aps:e4m3,headroom=sqrt_workers,rounding=stochastic", "qsgd",
          "qsgd:levels=3", "qsgd:levels=3,bucket=128",
          "loss_scaling:e5m2,scale=largest,headroom=one", "stochastic:e3m0,random_bits=8",
          "aps:e4m3,accumulate=fp32,hop_rounding=ties_to_even"}) {
        const Scheme scheme = parse_scheme(spec);
        EXPECT_EQ(parse_scheme(scheme.spec).spec, scheme.spec);
    }
    for (const char* spec : {"error_feedback(residual(aps:e3m0,headroom=one)),decay=0.5",
                             "error_feedback(qsgd:levels=1,bucket=20)",
                             "hybrid(first&role:conv=none:fp16;name:fc[12]=error_feedback(aps:e4m3)"
                             ";steps:0:5=none:fp32;else=qsgd:levels=3)"})
        EXPECT_EQ(parse_scheme(spec).spec, spec);
    EXPECT_EQ(parse_scheme("aps:float8_e4m3fn,headroom=workers").spec, "aps:e4m3fn");
    EXPECT_EQ(parse_scheme("qsgd:levels=7,bucket=512").spec, "qsgd");
}

TEST(SchemeSpec, WrongOnesAreRefused) {
    for (const char* spec : {"",
                             "apz:e4m3",
                             "aps",
                             "aps:",
                             "aps:e4m9x",
                             "aps:e4m3,headroom=two",
                             "aps:e4m3,head=one",
                             "aps:headroom=one",
                             "aps:e4m3,headroom",
                             "loss_scaling:e4m3,scale=0",
                             "loss_scaling:e4m3,scale=-1",
                             "loss_scaling:e4m3,scale=0.1",
                             "loss_scaling:e4m3,scale=1e99",
                             "qsgd:levels=0",
                             "qsgd:e4m3",
                             "none:e4m3,random_bits=0",
                             "none:e4m3,random_bits=65",
                             "none:e2m1fn,overflow=nan",
                             "aps:e4m3,headroom=one,headroom=workers",
                             "dynamic_loss_scaling:fp16,init=1.6069380442589903e60",
                             "dynamic_loss_scaling:fp16,growth=1",
                             "dynamic_loss_scaling:fp16,backoff=1",
                             "none:e4m3fn,overflow=infinity",
                             "aps:e4m3,accumulate=nothing",
                             "error_feedback",
                             "error_feedback()",
                             "error_feedback(aps:e4m3",
                             "error_feedback(aps)",
                             "aps(e4m3)",
                             "hybrid(last=none:fp16)",
                             "hybrid(nowhere=none:fp16;else=none:fp16)",
                             "hybrid(steps:a:b=none:fp16;else=none:fp16)",
                             "hybrid(name:(=none:fp16;else=none:fp16)",
                             "hybrid(else=hybrid(else=none:fp16))",
                             "error_feedback(hybrid(else=none:fp16))",
                             "error_feedback(dynamic_loss_scaling:fp16)",
                             "error_feedback(onebit_adam)",
                             "error_feedback(error_feedback(sign))"}) {
        EXPECT_THROW(parse_scheme(spec), std::invalid_argument) << spec;
    }
}

TEST(Grid, PayloadBitsFollowTheCodes) {
    EXPECT_EQ(payload_bits(parse_scheme("aps:e4m3").parts.encoding.float_encoder->grid, 10), 80u);
    EXPECT_EQ(payload_bits(parse_scheme("aps:e2m1fn").parts.encoding.float_encoder->grid, 10), 40u);
    for (const auto& [levels, bits] :
         {std::pair{1, 2}, {2, 3}, {3, 3}, {4, 4}, {7, 4}, {8, 5}, {127, 8}, {128, 9}}) {
        EXPECT_EQ(UniformGrid{levels}.payload_bits(1), static_cast<unsigned>(bits)) << levels;
        EXPECT_EQ(
            one_message(parse_scheme("qsgd:levels=" + std::to_string(levels)), {1.0}).payload_bits,
            static_cast<unsigned>(bits))
            << levels;
    }
    EXPECT_EQ(one_message(parse_scheme("qsgd:bucket=512"), Row(513)).side_bits, 64u);
    EXPECT_EQ(parse_scheme("aps:e4m3").parts.encoding.float_encoder->side_bits, 8u);
    EXPECT_EQ(parse_scheme("none:e4m3").parts.encoding.float_encoder->side_bits, 0u);
}

TEST(Policy, FirstAndLastAreLayers) {
    const std::vector<std::string> names{"stem.conv.weight", "stem.conv.bias", "body.weight",
                                         "norm.weight",      "head.weight",    "head.bias",
                                         "norm2.weight"};
    const std::vector<std::string> roles{"conv", "bias", "linear", "norm", "head", "bias", "norm"};
    const std::vector<PolicyTensor> tensors = policy_tensors(names, roles);
    std::string first, last;
    for (const PolicyTensor& t : tensors) {
        first += t.first ? '1' : '0';
        last += t.last ? '1' : '0';
    }
    EXPECT_EQ(first, "1100000");
    EXPECT_EQ(last, "0000110");
    const Scheme scheme = parse_scheme("hybrid(role:norm=none:fp32;name:^body&steps:10:20=none:"
                                       "fp16;first=none:bf16;else=aps:e4m3)");
    const Policy& policy = scheme.policy;
    const std::vector<std::int64_t> steps{0, 9, 10, 20};
    using Branches = std::vector<std::size_t>;
    EXPECT_EQ(policy.branches_for(tensors[3], steps), (Branches{0, 0, 0, 0}));
    EXPECT_EQ(policy.branches_for(tensors[2], steps), (Branches{3, 3, 1, 3}));
    EXPECT_EQ(policy.branches_for(tensors[1], steps), (Branches{2, 2, 2, 2}));
}

namespace {

struct Part {
    double scale = 1.0;
    long age = 0;
    bool stopped = false;
    std::vector<int> shifts;
    Rows errors;
    std::map<std::string, double> by_tensor;

    void fields(Fields& f) {
        f.numbers("part", scale, age, stopped);
        f.row("shifts", shifts);
        f.rows("error", errors);
        f.each("scale", by_tensor);
    }
};
struct Other {
    long count = 0;

    void fields(Fields& f) { f.numbers("count", count); }
};

}  // namespace

TEST(Record, ComesBackFromItsNamedRows) {
    State state;
    state.of(Part{2.5, 7, true, {3, -4}, {{1.0, 2.0}, {3.0}}, {{"fc.weight", 0.5}, {"a/b", 8.0}}});
    state.of<Other>().count = 9;
    const NamedRows rows = state.rows();
    const NamedRows expected{
        {"part", {2.5, 7.0, 1.0}}, {"shifts", {3.0, -4.0}},    {"error/0", {1.0, 2.0}},
        {"error/1", {3.0}},        {"scale/fc.weight", {0.5}}, {"scale/a/b", {8.0}},
        {"count", {9.0}}};
    EXPECT_EQ(rows, expected);
    State again(rows);
    EXPECT_EQ(again.rows(), expected);  // before any part is used
    const State& kept = again;
    const Part& part = kept.of<Part>();
    EXPECT_EQ(part.age, 7);
    EXPECT_TRUE(part.stopped);
    EXPECT_EQ(part.shifts, (std::vector<int>{3, -4}));
    EXPECT_EQ(part.by_tensor.at("a/b"), 8.0);
    EXPECT_EQ(again.rows(), expected);  // one part used, the other not
    const State copy = again;
    again.of<Part>().age = 8;
    EXPECT_EQ(copy.of<Part>().age, 7);
    EXPECT_EQ(again.of(Part{}).age, 8);  // made already
}

TEST(Record, RefusesARowOfAnotherLength) {
    State state(NamedRows{{"part", {1.0, 2.0}}});
    EXPECT_THROW(state.of<Part>(), std::invalid_argument);
}

TEST(Registry, KnowsEveryFileByItsNameAndFolder) {
    std::size_t files = 0;
    for (const SchemeDefinition& d : scheme_definitions()) {
        ++files;
        EXPECT_FALSE(d.name.empty() || d.class_name.empty() || d.summary.empty() ||
                     d.source.empty() || d.needs.empty() || !d.build)
            << d.name;
    }
    EXPECT_GE(files, 35u);
    EXPECT_EQ(scheme_definitions().front().name, "none");
    EXPECT_EQ(scheme_definitions().front().family, "unscaled");
}

TEST(MadeSchemes, BelongToTheirOwner) {
    MadeSchemes one, other;
    Scheme mine = parse_scheme("sign");
    mine.spec = mine.name = "mine";
    one.add(mine);
    EXPECT_EQ(parse_scheme("error_feedback(mine)", &one).spec, "error_feedback(mine)");
    EXPECT_THROW(parse_scheme("mine", &other), std::invalid_argument);
    EXPECT_THROW(parse_scheme("mine"), std::invalid_argument);
    mine.spec = "aps";
    EXPECT_THROW(one.add(mine), std::invalid_argument);
}
