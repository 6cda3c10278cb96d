// Schemes defined from functions: their numbers, their use inside others and in every function that
// takes a spec, and what is refused.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <typeinfo>
#include <vector>

namespace {

using namespace apscope;
using Row = SchemeFunctions::Row;
using Rows = SchemeFunctions::Rows;

constexpr float first[] = {0.5f, -3.0f, 0.25f, 1.0f}, second[] = {-1.0f, 2.0f, 0.75f, -0.25f};
const std::vector<std::span<const float>> gradients = {first, second};

// Sends the sign of each value, and decodes it to the magnitude `size` that select() chose.
SchemeFunctions signs(double size) {
    SchemeFunctions parts;
    parts.bits = 1;
    parts.grid = "sign";
    parts.draws = false;
    parts.select = [size](const SchemeStep&, Memory&, const Rows& rows) {
        EXPECT_EQ(rows.size(), 2u);
        return Memory{{"size", {size}}};
    };
    parts.encode = [](const SchemeStep&, const Memory&, std::span<const double> row, int) {
        std::vector<std::uint8_t> codes;
        for (const double x : row) codes.push_back(x < 0 ? 1 : 0);
        return SchemeMessage{.payload = pack(codes, 1), .payload_bits = row.size(), .side_bits = 7};
    };
    parts.decode = [](const SchemeStep&, const Memory& theta, const SchemeMessage& message,
                      std::size_t count, int) {
        Row values;
        for (const std::uint8_t code : unpack(message.payload, 1, count))
            values.push_back(code != 0 ? -theta.at("size")[0] : theta.at("size")[0]);
        return values;
    };
    return parts;
}

std::string error_of(const auto& work) {
    try {
        work();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "no error";
}

ExchangeResult exchanged(const std::string& spec, const ExchangeInputs& inputs = {}) {
    Memory memory;
    return exchange(spec, gradients, inputs, memory);
}

TEST(CppDefineScheme, SendsWhatEncodeAndDecodeSay) {
    const Scheme made = define_scheme("signs", signs(2.0));
    EXPECT_EQ(made.spec, "signs");
    EXPECT_EQ(made.family, "other");
    EXPECT_EQ(made.grid, "sign");
    EXPECT_FALSE(made.keeps_state);
    const ExchangeResult e = exchanged("signs", {.packs = true});
    EXPECT_EQ(e.sent, (Rows{{2, -2, 2, 2}, {-2, 2, 2, -2}}));
    EXPECT_EQ(e.reduced, (Row{0, 0, 4, 0}));
    EXPECT_EQ(e.payload, (std::vector<std::vector<std::uint8_t>>{{2}, {9}}));
    EXPECT_EQ(e.payload_bits, (std::vector<std::uint64_t>{4, 4}));
    EXPECT_EQ(e.side_bits, (std::vector<std::uint64_t>{7, 7}));
    define_scheme("signs", signs(1.0));  // replaces the first
    EXPECT_EQ(exchanged("signs").reduced, (Row{0, 0, 2, 0}));
}

TEST(CppDefineScheme, WorksInsideOthersAndInTwoPhases) {
    define_scheme("inner_signs", signs(1.0));
    Memory memory;
    const ExchangeResult e = exchange("error_feedback(inner_signs)", gradients, {}, memory);
    EXPECT_EQ(e.sent, (Rows{{1, -1, 1, 1}, {-1, 1, 1, -1}}));
    EXPECT_EQ(memory.at("error/0"), (Row{-0.5, -2, -0.75, 0}));
    EXPECT_TRUE(scheme("error_feedback(inner_signs)").keeps_state);

    SchemeFunctions halves;  // the nearest multiple of 1/2, of a row alone
    halves.encode = [](const SchemeStep& step, const Memory&, std::span<const double> row, int) {
        EXPECT_EQ(step.workers(), 1);
        Row values;
        for (const double x : row) values.push_back(std::nearbyint(2 * x) / 2);
        return SchemeMessage{.values = values};
    };
    define_scheme("halves", halves);
    const ExchangeResult two = exchanged("halves", {.topology = "two_phase"});
    EXPECT_EQ(two.reduction, "two_phase");
    EXPECT_EQ(two.reduced, (Row{-0.5, -1, 1, 1}));
}

TEST(CppDefineScheme, AllFunctionsInTheirOrder) {
    SchemeFunctions parts;
    parts.compensate = [](const SchemeStep&, Memory& memory, Rows& rows) {
        memory["steps"] = {memory["steps"].empty() ? 1.0 : memory["steps"][0] + 1};
        for (Row& row : rows)
            for (double& x : row) x *= 2;
    };
    parts.forward = [](const SchemeStep&, const Memory&, const Rows& rows) {
        Rows turned = rows;
        for (Row& row : turned) row.push_back(8);
        return turned;
    };
    parts.encode = [](const SchemeStep& step, const Memory&, std::span<const double> row, int w) {
        EXPECT_EQ(step.tensor(), "fc");
        EXPECT_EQ(step.number(), 5);
        EXPECT_EQ(step.random(w, 3), step.random(w, 3));
        EXPECT_NE(step.random(w, 3), step.random(1 - w, 3));
        for (const std::uint64_t word : step.random(w, 100, 3)) EXPECT_LT(word, 8u);
        return SchemeMessage{.values = {row.begin(), row.end()}};
    };
    parts.reduce = [](const SchemeStep&, Memory&, const Memory&, const Rows& values) {
        Row sum = values[0];
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[1][i];
        return sum;
    };
    parts.inverse = [](const SchemeStep&, const Memory&, std::span<const double> row) {
        return Row(row.begin(), row.end() - 1);
    };
    parts.update = [](const SchemeStep&, Memory& memory, const Rows& intended, const Rows& sent,
                      std::span<const double> reduced) {
        EXPECT_EQ(intended, sent);
        memory["sum"] = {reduced.begin(), reduced.end()};
    };
    EXPECT_TRUE(define_scheme("all_parts", parts).keeps_state);
    Memory memory;
    exchange("all_parts", gradients, {.step = 5, .tensor = "fc"}, memory);
    const ExchangeResult e = exchange("all_parts", gradients, {.step = 5, .tensor = "fc"}, memory);
    EXPECT_EQ(e.intended[0], (Row{1, -6, 0.5, 2}));
    EXPECT_EQ(e.reduced, (Row{-1, -2, 2, 1.5}));
    EXPECT_EQ(memory, (Memory{{"steps", {2}}, {"sum", {-1, -2, 2, 1.5}}}));
}

TEST(CppDefineScheme, ClosedMomentsReachTheResults) {
    SchemeFunctions parts;  // half of the value or three halves, each with probability 1/2
    parts.encode = [](const SchemeStep& step, const Memory&, std::span<const double> row, int w) {
        SchemeMessage message;
        const std::vector<std::uint64_t> words = step.random(w, row.size(), 1);
        for (std::size_t i = 0; i < row.size(); ++i) {
            message.values.push_back(row[i] * (words[i] != 0 ? 1.5 : 0.5));
            message.bias.push_back(0);
            message.variance.push_back(row[i] * row[i] / 4);
        }
        return message;
    };
    define_scheme("coin", parts);
    const ExchangeResult e = exchanged("coin");
    EXPECT_EQ(e.variance, (Rows{{0.0625, 2.25, 0.015625, 0.25}, {0.25, 1, 0.140625, 0.015625}}));
    EXPECT_EQ(e.bias, (Rows(2, Row(4, 0.0))));
    parts.encode = [](const SchemeStep&, const Memory&, std::span<const double> row, int) {
        return SchemeMessage{.values = {row.begin(), row.end()}, .variance = {1}};
    };
    define_scheme("short_moments", parts);
    EXPECT_EQ(error_of([] { exchanged("short_moments"); }),
              "scheme 'short_moments': encode gave 0 biases where 4 belong, of x at step 0");
}

TEST(CppDefineScheme, ReplaysAndTrainsAsItExchanges) {
    SchemeFunctions parts;
    parts.base = "none:e4m3";
    parts.select = [](const SchemeStep&, Memory&, const Rows&) {
        return Memory{{"scale", {16}}, {"scale_exponent", {4}}};
    };
    define_scheme("sixteen", parts);
    const Results results =
        replay(open_trace(APSCOPE_ROOT "/notebooks/data/digits"),
               {"sixteen", "loss_scaling:e4m3,scale=16", "error_feedback(sixteen)"},
               {.topologies = {"ring", "two_phase"}, .end_step = 3});
    EXPECT_EQ(results.schemes()[2], "error_feedback(sixteen)");
    std::vector<double> errors[2];
    for (std::size_t i = 0; i < results.size(); ++i)
        for (const int k : {0, 1})
            if (results.text(i, "scheme") == results.schemes()[static_cast<std::size_t>(k)] &&
                results.text(i, "topology") == "ring")
                errors[k].push_back(results.number(i, "sum_squared_error"));
    EXPECT_FALSE(errors[0].empty());
    EXPECT_EQ(errors[0], errors[1]);
    EXPECT_EQ(results.summary().size(), 3u * 3);  // also its modelled times

    std::vector<float> out(4), expected(4);
    for (const auto& [spec, sum] : {std::pair("sixteen", std::span(out)),
                                    std::pair("loss_scaling:e4m3,scale=16", std::span(expected))}) {
        TrainingExchange training(spec, {{"fc", "linear", {4}}}, 2);
        TrainedStep step;
        step.gradients = {gradients};
        step.out = {sum};
        training.run(step);
    }
    EXPECT_EQ(out, expected);
}

TEST(CppDefineScheme, RefusesAndSaysWhy) {
    for (const char* name :
         {"aps", "", "a:b", "a b", " a", "a\n", "a@ring", "all", "main", "hybrid"})
        EXPECT_NE(error_of([&] { define_scheme(name, signs(1)); }).find("cannot name a new scheme"),
                  std::string::npos)
            << name;
    SchemeFunctions parts;
    parts.bits = 65;
    EXPECT_EQ(error_of([&] { define_scheme("mine", parts); }), "bits=65 is not between 0 and 64");
    parts = signs(1);
    parts.encode = {};
    EXPECT_EQ(error_of([&] { define_scheme("mine", parts); }),
              "scheme 'mine' has decode without encode; give encode too");
    parts = {};
    parts.base = "hybrid(last=qsgd;else=none:e4m3)";
    EXPECT_THROW(define_scheme("mine", parts), std::invalid_argument);
    EXPECT_THROW(static_cast<void>(scheme("mine")), std::invalid_argument);
    define_scheme("one_of_mine", signs(1));
    EXPECT_EQ(error_of([] { static_cast<void>(scheme("one_of_nime")); }),
              "unknown scheme 'one_of_nime'; did you mean one_of_mine?");
}

TEST(CppDefineScheme, NamesTheFunctionThatReturnsAnotherLength) {
    const auto gives = [](std::size_t values) {
        return [values](const SchemeStep&, const Memory&, std::span<const double>, int) {
            return SchemeMessage{.values = Row(values, 1.0)};
        };
    };
    SchemeFunctions parts;
    parts.encode = gives(3);
    define_scheme("short_encode", parts);
    EXPECT_EQ(error_of([] { exchanged("short_encode"); }),
              "scheme 'short_encode': encode gave 3 values where 4 belong, of x at step 0");
    parts = signs(1);
    parts.decode = [](const SchemeStep&, const Memory&, const SchemeMessage&, std::size_t, int) {
        return Row(5);
    };
    define_scheme("long_decode", parts);
    EXPECT_EQ(error_of([] { exchanged("long_decode"); }),
              "scheme 'long_decode': decode gave 5 values where 4 belong, of x at step 0");
    parts = {};
    parts.compensate = [](const SchemeStep&, Memory&, Rows& rows) { rows.pop_back(); };
    define_scheme("lost_row", parts);
    EXPECT_EQ(error_of([] { exchanged("lost_row"); }),
              "scheme 'lost_row': compensate gave 1 rows where 2 belong, of x at step 0");
    parts = {};
    parts.encode = [](const SchemeStep&, const Memory&, std::span<const double> row, int) {
        return SchemeMessage{.values = Row(row.size()), .payload = {1, 2}, .payload_bits = 17};
    };
    define_scheme("long_payload", parts);
    EXPECT_EQ(error_of([] { exchanged("long_payload"); }),
              "scheme 'long_payload': encode gave 17 payload bits where 16 belong, of x at step 0");
    parts = {};
    parts.encode = gives(4);
    parts.reduce = [](const SchemeStep&, Memory&, const Memory&, const Rows&) { return Row(1); };
    define_scheme("short_sum", parts);
    EXPECT_EQ(error_of([] { exchanged("short_sum"); }),
              "scheme 'short_sum': reduce gave 1 values where 4 belong, of x at step 0");
}

struct OwnError {
    int number;
};

TEST(CppDefineScheme, CarriesExceptionsToTheCaller) {
    SchemeFunctions parts;
    parts.encode = [](const SchemeStep& step, const Memory&, std::span<const double>,
                      int) -> SchemeMessage { throw OwnError{static_cast<int>(step.number())}; };
    define_scheme("throws", parts);
    try {
        exchanged("throws", {.step = 42});
        FAIL();
    } catch (const OwnError& error) {
        EXPECT_EQ(error.number, 42);
    }
    const Trace trace = open_trace(APSCOPE_ROOT "/notebooks/data/digits");
    EXPECT_THROW(
        static_cast<void>(replay(trace, {"none:e4m3", "throws"}, {.end_step = 2, .threads = 4})),
        OwnError);
}

// The exception that `work` throws, of this type and not of a derived one.
template <class Exception>
std::string exactly(const auto& work) {
    try {
        work();
    } catch (const Exception& thrown) {
        return typeid(thrown) == typeid(Exception) ? thrown.what() : typeid(thrown).name();
    }
    return "no error";
}

TEST(CppDefineScheme, LeavesAnExceptionOfTheCallerAsItIs) {
    SchemeFunctions parts;
    parts.encode = [](const SchemeStep&, const Memory&, std::span<const double>,
                      int) -> SchemeMessage { throw std::invalid_argument("my own"); };
    define_scheme("throws_refusal", parts);
    EXPECT_EQ(exactly<std::invalid_argument>([] { exchanged("throws_refusal"); }), "my own");
    parts.encode = {};
    const auto denied = std::make_error_code(std::errc::permission_denied);
    parts.update = [&](const SchemeStep&, Memory&, const Rows&, const Rows&,
                       std::span<const double>) { throw std::system_error(denied, "my disk"); };
    define_scheme("throws_denied", parts);
    EXPECT_EQ(exactly<std::system_error>([] { exchanged("throws_denied"); }),
              std::system_error(denied, "my disk").what());
    const Trace trace = open_trace(APSCOPE_ROOT "/notebooks/data/digits");
    const auto progress = [](std::size_t, std::size_t) { throw std::invalid_argument("enough"); };
    EXPECT_EQ(exactly<std::invalid_argument>([&] {
                  (void)replay(trace, {"none:e4m3"}, {.end_step = 2, .progress = progress});
              }),
              "enough");
}

TEST(CppDefineScheme, EveryWorkerIsLessThanTheSenders) {
    std::vector<int> workers, senders;
    SchemeFunctions parts;
    parts.encode = [&](const SchemeStep& step, const Memory&, std::span<const double> row, int w) {
        workers.push_back(w);
        senders.push_back(step.senders());
        return SchemeMessage{.values = {row.begin(), row.end()}};
    };
    define_scheme("numbered", parts);
    exchanged("numbered", {.topology = "two_phase"});
    EXPECT_EQ(workers, (std::vector{0, 1, 2, 3}));  // two workers, then two owners
    EXPECT_EQ(senders, (std::vector{4, 4, 4, 4}));
    senders.clear();
    exchanged("numbered");
    EXPECT_EQ(senders, (std::vector{2, 2}));
}

TEST(CppDefineScheme, NamesTheFunctionThatDrawsWrongly) {
    int bits = 8;
    SchemeFunctions parts;
    parts.encode = [&](const SchemeStep& step, const Memory&, std::span<const double>, int) {
        step.random(bits == 8 ? -1 : 0, 1, bits);
        return SchemeMessage{};
    };
    define_scheme("draws_wrongly", parts);
    EXPECT_EQ(exactly<error>([] { exchanged("draws_wrongly"); }),
              "scheme 'draws_wrongly': random() of encode got worker=-1, which must be at least 0, "
              "for x at step 0");
    bits = 65;
    EXPECT_EQ(exactly<error>([] { exchanged("draws_wrongly"); }),
              "scheme 'draws_wrongly': random() of encode got bits=65, which must be between 1 and "
              "64, for x at step 0");
}

TEST(CppDefineScheme, ValuesThatAreNotFiniteBypassIt) {
    define_scheme("bypassed", signs(1.0));
    constexpr float infinite[] = {0.5f, std::numeric_limits<float>::infinity(), 0.25f, 1.0f};
    Memory memory;
    const std::vector<std::span<const float>> rows = {infinite, second};
    const ExchangeResult e = exchange("bypassed", rows, {}, memory);
    EXPECT_EQ(e.sent[0][1], std::numeric_limits<double>::infinity());
    EXPECT_EQ(e.reduced[1], std::numeric_limits<double>::infinity());
}

// A base reads the scales that a function chose: too few of them are refused.
TEST(CppDefineScheme, ScalesMustServeEveryElement) {
    for (const char* base : {"aps:e4m3,unit=2", "aps:e4m3,unit=3"}) {
        SchemeFunctions parts;
        parts.base = base;
        parts.select = [](const SchemeStep&, Memory&, const Rows&) {
            return Memory{{"scales", {2, 2, 2}}};
        };
        define_scheme("few_scales", parts);
        for (const char* topology : {"ring", "two_phase"})
            EXPECT_EQ(error_of([&] { exchanged("few_scales", {.topology = topology}); }),
                      "select gave 3 scales for 4 elements");
    }
    SchemeFunctions parts;
    parts.base = "aps:e4m3,unit=2";
    parts.select = [](const SchemeStep&, Memory&, const Rows&) { return Memory{{"scale", {2}}}; };
    define_scheme("no_scales", parts);
    EXPECT_EQ(error_of([] { exchanged("no_scales"); }), "select gave no scales, which unit= needs");
    parts.base = "multipoint";  // whose points only its own select chooses
    define_scheme("no_points", parts);
    EXPECT_EQ(error_of([] { exchanged("no_points"); }),
              "a row of the state, or of what a function chose, has another length than this "
              "exchange's; give the state of an exchange of the same tensors");
}

// Functions get the memory as named rows, without those that have no elements, and may remove rows.
TEST(CppDefineScheme, FunctionsMayRemoveAnInnerSchemesMemory) {
    SchemeFunctions parts;
    parts.compensate = [](const SchemeStep&, Memory& memory, Rows&) { memory = {{"own", {1}}}; };
    define_scheme("forgets", parts);
    const std::vector<std::span<const float>> none(2);
    Memory memory;
    EXPECT_TRUE(exchange("error_feedback(forgets)", none, {}, memory).reduced.empty());
    EXPECT_EQ(memory["own"], Row{1});
    // The rows of errors are made again, of zeros: nothing is added to the gradients.
    memory["error/0"] = {8, 8, 8, 8};
    EXPECT_EQ(exchange("error_feedback(forgets)", gradients, {}, memory).reduced,
              (Row{-0.5, -1, 1, 0.75}));
    EXPECT_EQ(memory["own"], Row{1});
}

TEST(CppDefineScheme, TheBasesFunctionsFindTheirMemory) {
    SchemeFunctions parts;
    parts.base = "onebit_adam:warmup=0";
    parts.compensate = [](const SchemeStep&, Memory&, Rows& rows) {
        for (Row& row : rows)
            for (double& x : row) x *= 2;
    };
    define_scheme("doubled_adam", parts);
    Memory memory;
    const ExchangeResult e = exchange("doubled_adam", gradients, {}, memory);
    EXPECT_EQ(e.reduced.size(), gradients[0].size());
    EXPECT_GE(memory.at("error/0").size(), gradients[0].size());  // 1-bit Adam pads the row
}

TEST(CppDefineScheme, ThreadsDefineAndUseAtOnce) {
    define_scheme("changing", signs(1.0));
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                if (t == 0) define_scheme("changing", signs(i % 2 + 1.0));
                else if (const double sum = exchanged("changing").reduced[2]; sum != 2 && sum != 4)
                    ++wrong;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST(CppPacking, IsPythonsAndTurnsBack) {
    const std::vector<std::uint8_t> codes = {1, 2, 3};
    EXPECT_EQ(pack(codes, 4), (std::vector<std::uint8_t>{33, 3}));
    EXPECT_EQ(pack(codes, 4, 3), (std::vector<std::uint8_t>{1, 2, 3}));
    for (int bits = 2; bits <= 8; ++bits)
        EXPECT_EQ(unpack(pack(codes, bits), bits, 3), codes) << bits;
    EXPECT_EQ(unpack(pack(codes, 3, 3), 3, 1, 3), codes);
    EXPECT_TRUE(pack({}, 4).empty());
    EXPECT_TRUE(unpack({}, 4, 0).empty());
    EXPECT_THROW(pack(codes, 1), std::invalid_argument);     // 2 has two bits
    EXPECT_THROW(pack(codes, 4, 2), std::invalid_argument);  // 3 codes are not two lines
    EXPECT_THROW(pack(codes, 4, 0), std::invalid_argument);
    for (const int bits : {0, 9, -1})
        EXPECT_THROW(unpack(codes, bits, 3), std::invalid_argument) << bits;
    EXPECT_THROW(unpack(codes, 8, 2), std::invalid_argument);
    EXPECT_THROW(unpack(codes, 8, std::size_t{1} << 63, 2), std::invalid_argument);
    EXPECT_THROW(unpack(codes, 8, 3, 0), std::invalid_argument);
}

TEST(CppReplay, StepsByNumber) {
    const Trace trace = open_trace(APSCOPE_ROOT "/notebooks/data/digits");
    EXPECT_EQ(replay(trace, {"none:e4m3"}, {.steps = {4, 1}}).steps(),
              (std::vector<std::int64_t>{1, 4}));
    EXPECT_THROW(static_cast<void>(replay(trace, {"none:e4m3"}, {.steps = {1, 100000}})),
                 std::invalid_argument);
    EXPECT_EQ(error_of([&] {
                  static_cast<void>(replay(trace, {"none:e4m3"}, {.end_step = 3, .steps = {1}}));
              }),
              "steps are given both as a list and as a range; give one of the two");
}

}  // namespace
