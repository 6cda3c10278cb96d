// A training exchange divided among ranks gives the bits of one process, for every scheme and
// topology that it takes; it refuses the others, and messages that are not its own.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace apscope;
using Bytes = std::vector<std::byte>;

constexpr int workers = 3;
const std::vector<TrainedTensor> tensors = {{"conv.weight", "conv", {5, 7, 3}},
                                            {"fc.weight", "linear", {64, 33}},
                                            {"fc.bias", "bias", {2}},
                                            {"empty", "other", {0}}};

std::size_t size_of(const TrainedTensor& tensor) {
    std::size_t size = 1;
    for (const std::int64_t axis : tensor.shape) size *= static_cast<std::size_t>(axis);
    return size;
}

// The rows of a step: tensor, then worker.
std::vector<std::vector<std::vector<float>>> rows_of(std::int64_t step, int ranks, bool specials) {
    std::mt19937 random(static_cast<unsigned>(step));
    std::vector<std::vector<std::vector<float>>> rows;
    for (const TrainedTensor& tensor : tensors) {
        auto& own = rows.emplace_back(ranks);
        for (auto& row : own)
            for (std::size_t i = 0; i < size_of(tensor); ++i)
                row.push_back(std::ldexp(static_cast<float>(random() % 2001) - 1000.0f,
                                         -static_cast<int>(random() % 24)));
    }
    if (specials) {
        rows[0].back()[3] = std::numeric_limits<float>::infinity();
        rows[1].back()[5] = std::numeric_limits<float>::quiet_NaN();
        rows[0].front()[3] = -std::numeric_limits<float>::infinity();
    }
    return rows;
}

std::vector<std::uint32_t> bits_of(const std::vector<std::vector<float>>& rows) {
    std::vector<std::uint32_t> bits;
    for (const auto& row : rows)
        for (const float x : row)
            bits.push_back(std::isnan(x) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(x));
    return bits;
}

std::vector<std::vector<float>> results() {
    std::vector<std::vector<float>> out;
    for (const TrainedTensor& tensor : tensors) out.emplace_back(size_of(tensor), -1.0f);
    return out;
}

std::vector<std::span<float>> spans_of(std::vector<std::vector<float>>& rows) {
    return {rows.begin(), rows.end()};
}

struct Case {
    const char *scheme, *topology;
    bool specials = false;
};

// GoogleTest's name of a case, without the addresses of its texts.
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.scheme << " in " << c.topology << (c.specials ? " with NaN and infinity" : "");
}

class CppRankExchange : public testing::TestWithParam<Case> {};

// Halves of the values; `rank_skips` drops a step in which a row begins with a positive number.
// `rank_numbers` draws with the number of each sender.
void define_schemes() {
    SchemeFunctions numbers{.base = "qsgd"};
    numbers.encode = [](const SchemeStep& step, const Memory&, std::span<const double> row,
                        int worker) {
        std::vector<double> of_senders(static_cast<std::size_t>(step.senders()), 1.0);
        const std::vector<std::uint64_t> words = step.random(worker, row.size(), 1);
        SchemeMessage message;
        for (std::size_t i = 0; i < row.size(); ++i)
            message.values.push_back(row[i] * of_senders.at(static_cast<std::size_t>(worker)) *
                                     static_cast<double>(1 + words[i]));
        return message;
    };
    define_scheme("rank_numbers", numbers);
    SchemeFunctions parts;
    parts.encode = [](const SchemeStep&, const Memory&, std::span<const double> row, int) {
        SchemeMessage message;
        for (const double x : row) message.values.push_back(x / 2);
        return message;
    };
    define_scheme("rank_halves", parts);
    parts.select = [](const SchemeStep&, Memory&, const SchemeFunctions::Rows& rows) {
        return Memory{{"skipped", {!rows[0].empty() && rows[0][0] > 0 ? 1.0 : 0.0}}};
    };
    define_scheme("rank_skips", parts);
    parts.base = "loss_scaling:e4m3,scale=4";
    parts.select = {};
    define_scheme("rank_scaled", parts);
    parts.update = [](const SchemeStep&, Memory&, const SchemeFunctions::Rows&,
                      const SchemeFunctions::Rows&, std::span<const double>) {};
    define_scheme("rank_updates", parts);
    parts.update = {};
    parts.base = "aps:e4m3";
    define_scheme("rank_chooses", parts);
}

void expect_equal(const Case& of, int count) {
    const auto& [scheme, topology, specials] = of;
    const auto size = static_cast<std::size_t>(count);
    TrainingExchange whole(scheme, tensors, count, topology, 9);
    std::vector<RankExchange> ranks;
    for (int r = 0; r < count; ++r) ranks.emplace_back(scheme, tensors, r, count, topology, 9);
    for (std::int64_t number = 0; number < 3; ++number) {
        const auto rows = rows_of(number, count, specials && number == 1);
        std::vector<std::vector<float>> expected = results();
        TrainedStep step;
        step.step = number;
        step.loss = step.learning_rate = 0.5;
        for (const auto& of_workers : rows)
            step.gradients.emplace_back(of_workers.begin(), of_workers.end());
        step.out = spans_of(expected);
        const std::vector<bool> dropped = whole.run(step);

        std::vector<std::vector<Bytes>> to(size, std::vector<Bytes>(size));
        for (std::size_t r = 0; r < size; ++r) {
            RankStep own{.step = number, .loss = 0.5, .learning_rate = 0.5};
            for (const auto& of_workers : rows) own.gradients.emplace_back(of_workers[r]);
            const std::vector<Bytes> sent = ranks[r].send(own);
            for (std::size_t s = 0; s < size; ++s) to[s][r] = sent[s];
        }
        std::vector<Bytes> sums;
        for (std::size_t r = 0; r < size; ++r) sums.push_back(ranks[r].add(to[r]));
        for (const RankExchange& rank : ranks) {
            std::vector<std::vector<float>> out = results();
            EXPECT_EQ(rank.receive(sums, spans_of(out)), dropped);
            ASSERT_EQ(bits_of(out), bits_of(expected)) << "step " << number;
        }
    }
}

TEST_P(CppRankExchange, HasTheBitsOfOneProcess) {
    define_schemes();
    for (const int count : {1, 2, 3, 5}) {
        SCOPED_TRACE(count);
        expect_equal(GetParam(), count);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, CppRankExchange,
    testing::Values(Case{"none:e4m3", "two_phase"}, Case{"none:e4m3", "two_phase", true},
                    Case{"aps:e4m3", "two_phase"},
                    Case{"aps:e5m2,rounding=stochastic", "two_phase"},
                    Case{"aps:e4m3", "two_phase,own=exact", true}, Case{"mx", "two_phase", true},
                    Case{"qsgd", "two_phase", true}, Case{"natural", "two_phase"},
                    Case{"aps:e4m3", "two_phase,phase2=(aps:e5m2)"},
                    Case{"aps:e4m3", "reduce_scatter"}, Case{"delayed_scaling:e4m3fn", "two_phase"},
                    Case{"error_feedback(aps:e3m0)", "two_phase", true},
                    Case{"error_feedback(mx)", "two_phase"}, Case{"top_k", "ring"},
                    Case{"error_feedback(loss_scaling:e4m3,scale=4)", "two_phase", true},
                    Case{"rank_numbers", "two_phase"}, Case{"rank_numbers", "ring"},
                    Case{"nvfp4", "two_phase"}, Case{"rank_skips", "two_phase", true},
                    Case{"error_feedback(rank_halves)", "two_phase", true},
                    Case{"qsgd", "ring", true}, Case{"top_k", "reduce_scatter"},
                    Case{"top_k", "tree", true}, Case{"error_feedback(qsgd)", "ring", true},
                    Case{"rank_halves", "ring", true}, Case{"rank_halves", "tree"},
                    Case{"rank_scaled", "ring", true},
                    Case{"error_feedback(rank_halves)", "ring"}));

// Buckets: blocks that cross tensors, of which none ends at the end of a shard.
INSTANTIATE_TEST_SUITE_P(
    Buckets, CppRankExchange,
    testing::Values(Case{"mx,bucket=25MB", "ring", true}, Case{"mx,bucket=25MB", "two_phase", true},
                    Case{"mx,bucket=400", "two_phase"},
                    Case{"mx,bucket=25MB,rounding=stochastic", "ring"},
                    Case{"mx,bucket=25MB,rounding=stochastic", "two_phase", true},
                    Case{"mx,bucket=25MB", "two_phase,own=exact", true},
                    Case{"mx,bucket=25MB", "two_phase,phase2=(aps:e5m2)", true},
                    Case{"mx,bucket=25MB", "two_phase,phase2=(qsgd)"},
                    Case{"mx,bucket=25MB", "reduce_scatter", true},
                    Case{"nvfp4,bucket=25MB", "two_phase", true},
                    Case{"nvfp4,bucket=25MB,agree=local", "ring", true},
                    Case{"current_scaling:e4m3fn,block=40,bucket=25MB", "ring", true},
                    Case{"current_scaling:e4m3fn,block=40,bucket=25MB", "two_phase", true},
                    Case{"aps:e4m3,unit=50,bucket=25MB", "two_phase", true}));

INSTANTIATE_TEST_SUITE_P(
    Hybrids, CppRankExchange,
    testing::Values(
        Case{"hybrid(last=qsgd;else=top_k)", "ring", true},
        Case{"hybrid(last=none:fp32;else=aps:e4m3)", "two_phase", true},
        Case{"hybrid(last=rank_halves;else=error_feedback(qsgd))", "ring", true},
        Case{"hybrid(last=error_feedback(rank_halves);else=mx,bucket=25MB)", "two_phase"},
        // The bucket of fc.bias has other tensors at step 1, and both branches have one memory.
        Case{"hybrid(role:conv&steps:1:2=top_k;else=mx,bucket=25MB)", "ring", true},
        Case{"hybrid(steps:1:2&role:conv=delayed_scaling:e4m3fn;role:linear=mx,bucket=25MB;"
             "else=delayed_scaling:e4m3fn)",
             "two_phase", true},
        Case{"hybrid(role:conv=aps:e4m3;else=mx,bucket=25MB)", "two_phase,phase2=(aps:e5m2)"}));

std::string error_of(const auto& work) {
    try {
        work();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

std::string refusal(const std::string& scheme, const std::string& topology, int rank = 0) {
    return error_of([&] { RankExchange(scheme, tensors, rank, workers, topology); });
}

TEST(CppRankExchange, RefusesWhatNeedsAllRows) {
    EXPECT_EQ(
        refusal("aps:e4m3", "ring"),
        "scheme 'aps:e4m3' with topology 'ring' encodes a worker's row with the others, which "
        "a rank alone does not have; use TrainingExchange, or topology two_phase if the scheme "
        "allows it");
    EXPECT_EQ(refusal("qsgd", "hierarchical:3(two_phase,two_phase)"),
              "scheme 'qsgd' with topology 'hierarchical:3(two_phase,two_phase)' encodes sums of "
              "several workers' rows, which a rank alone does not have; use TrainingExchange, or "
              "topology two_phase");
    EXPECT_EQ(refusal("terngrad", "two_phase"),
              "scheme 'terngrad' with topology 'two_phase' encodes a worker's row with the others, "
              "which a rank alone does not have; use TrainingExchange");
    EXPECT_EQ(refusal("hybrid(last=qsgd;else=aps:e4m3,unit=bucket:1MB)", "two_phase"),
              "scheme 'aps:e4m3,unit=bucket:1MB' of 'hybrid(last=qsgd;else=aps:e4m3,unit=bucket:"
              "1MB)' computes one scale for several tensors from the rows of all workers, which a "
              "rank alone does not have; use TrainingExchange");
    define_schemes();
    for (const auto& [scheme, topology] :
         {std::pair("powersgd", "two_phase"),
          {"sign_vote", "two_phase"},
          {"hybrid(last=qsgd;else=aps:e4m3)", "ring"},
          {"hybrid(last=powersgd;else=aps:e4m3)", "two_phase"},
          {"quickreduce,bucket=25MB", "two_phase"},
          {"rank_chooses", "ring"},
          {"aps:e4m3", "two_phase,sum=exact"},
          {"error_feedback(dynamic_loss_scaling:fp16)", "two_phase"},
          {"loss_scaling:e4m3,scale=largest", "two_phase"}})
        EXPECT_NE(refusal(scheme, topology), "") << scheme;
    for (const char* scheme : {"rank_updates", "error_feedback(rank_updates)"})
        EXPECT_NE(refusal(scheme, "two_phase"), "") << scheme;
    EXPECT_NE(refusal("qsgd", "ring", 3), "");
    EXPECT_NE(refusal("qsgd", "ring", -1), "");
}

TEST(CppRankExchange, RefusesAStepWhoseMemoryItCannotKnow) {
    define_schemes();
    RankExchange rank("error_feedback(rank_skips)", {{"x", "other", {2}}}, 0, 2);
    const std::vector<float> kept = {-1, 2}, dropped = {1, 2};
    rank.send({.gradients = {kept}});
    EXPECT_EQ(error_of([&] { rank.send({.step = 1, .gradients = {dropped}}); }),
              "scheme 'error_feedback(rank_skips)' drops step 1 of 'x' on rank 0, and its memory "
              "depends on whether any worker does, which a rank alone does not know; use "
              "TrainingExchange");
}

TEST(CppRankExchange, RefusesMessagesThatAreNotItsOwn) {
    RankExchange rank("qsgd", {{"x", "other", {4}}}, 0, 1);
    const std::vector<float> row = {1, 2, 3, 4};
    std::vector<float> out(4);
    const std::vector<std::span<float>> outs = {out};
    EXPECT_THROW(rank.send({.gradients = {std::span(row).first(3)}}), std::invalid_argument);
    EXPECT_THROW(rank.send({.gradients = {row, row}}), std::invalid_argument);
    std::vector<Bytes> sent = rank.send({.gradients = {row}});
    std::vector<Bytes> sums = {rank.add(sent)};
    RankExchange other = std::move(rank);
    EXPECT_THROW(rank.add(sent), std::invalid_argument);
    rank = std::move(other);
    EXPECT_THROW(rank.add({}), std::invalid_argument);
    EXPECT_THROW(rank.receive(sums, {}), std::invalid_argument);
    for (std::vector<Bytes>* messages : {&sent, &sums}) {
        const auto take = [&] {
            if (messages == &sent) rank.add(sent);
            else rank.receive(sums, outs);
        };
        take();
        const Bytes kept = messages->at(0);
        for (std::size_t length = 0; length < kept.size(); ++length) {
            messages->at(0).assign(kept.begin(),
                                   kept.begin() + static_cast<std::ptrdiff_t>(length));
            EXPECT_THROW(take(), std::invalid_argument) << length;
        }
        messages->at(0) = kept;
        messages->at(0).push_back(std::byte{0});
        EXPECT_THROW(take(), std::invalid_argument);
    }
    constexpr std::size_t head = 24;
    for (const std::byte index : {std::byte{4}, std::byte{255}}) {
        Bytes forged(head + 1 + 8 + 8 + 4 + 16);
        forged[head + 1] = std::byte{1};  // one element that bypasses the scheme, beyond the shard
        forged[head + 9] = index;
        EXPECT_EQ(error_of([&] { rank.add(std::vector<Bytes>{forged}); }),
                  "the message of step 0 from rank 0 with the shards of rank 0 is not one of this "
                  "exchange; give each rank's complete message, in their order");
    }
}

std::vector<Bytes> sums_of(std::vector<RankExchange>& ranks,
                           const std::vector<std::vector<Bytes>>& sent) {
    std::vector<Bytes> sums;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        std::vector<Bytes> received;
        for (const std::vector<Bytes>& of_rank : sent) received.push_back(of_rank[r]);
        sums.push_back(ranks[r].add(received));
    }
    return sums;
}

TEST(CppRankExchange, RefusesMessagesOfOtherStepsAndRanks) {
    const std::vector<float> row = {1, 2, 3, 4};
    std::vector<RankExchange> ranks;
    for (int r = 0; r < 2; ++r)
        ranks.emplace_back("qsgd", std::vector<TrainedTensor>{{"x", "other", {4}}}, r, 2);
    std::vector<std::vector<Bytes>> sent;
    for (RankExchange& rank : ranks) sent.push_back(rank.send({.step = 7, .gradients = {row}}));
    const std::vector<Bytes> sums = sums_of(ranks, sent);
    const std::vector<Bytes> later = ranks[1].send({.step = 8, .gradients = {row}});
    EXPECT_EQ(error_of([&] { ranks[0].add(std::vector{sent[0][0], later[0]}); }),
              "a message is that of step 8 from rank 1 with the shards of rank 0, where that of "
              "step 7 from rank 1 with the shards of rank 0 belongs");
    EXPECT_EQ(error_of([&] { ranks[0].add(std::vector{sent[1][0], sent[0][0]}); }),
              "a message is that of step 7 from rank 1 with the shards of rank 0, where that of "
              "step 7 from rank 0 with the shards of rank 0 belongs");
    EXPECT_THROW(ranks[0].add(std::vector{sent[0][0], sent[1][1]}), std::invalid_argument);
    std::vector<float> out(4, -1.0f);
    const std::vector<std::span<float>> outs = {out};
    EXPECT_THROW(ranks[1].receive(sums, outs), std::invalid_argument);  // at step 8
    EXPECT_THROW(ranks[0].receive(std::vector{sums[0], sums[0]}, outs), std::invalid_argument);
    std::vector<Bytes> cut = sums;
    cut[1].pop_back();
    EXPECT_THROW(ranks[0].receive(cut, outs), std::invalid_argument);
    EXPECT_EQ(out, std::vector<float>(4, -1.0f));  // as before
    ranks[0].receive(sums, outs);
    EXPECT_NE(out[0], -1.0f);
}

TEST(CppRankExchange, ACallThatThrowsChangesNoMemory) {
    // The owner's scale depends on the steps before.
    const std::vector<float> row = {100, 3, -0.7f}, next = {50, 1, 0.3f};
    const std::vector<TrainedTensor> two = {{"x", "other", {3}}, {"y", "other", {3}}};
    RankExchange rank("delayed_scaling:e4m3fn", two, 0, 1),
        other("delayed_scaling:e4m3fn", two, 0, 1);
    for (std::int64_t step = 0; step < 2; ++step) {
        const RankStep own{.step = step, .gradients = {row, next}};
        const std::vector<Bytes> sent = rank.send(own);
        std::vector<Bytes> cut = sent;
        cut[0].pop_back();  // of the second tensor
        EXPECT_THROW(rank.add(cut), std::invalid_argument);
        EXPECT_EQ(other.send(own), sent);
        EXPECT_EQ(rank.add(sent), other.add(sent)) << step;
    }

    define_schemes();
    RankExchange feeds("error_feedback(rank_skips)", two, 0, 1),
        same("error_feedback(rank_skips)", two, 0, 1);
    const std::vector<float> kept = {-1, 2, 3};
    EXPECT_EQ(feeds.send({.step = 0, .gradients = {kept, kept}}),
              same.send({.step = 0, .gradients = {kept, kept}}));
    EXPECT_THROW(feeds.send({.step = 1, .gradients = {kept, next}}), std::invalid_argument);
    EXPECT_EQ(feeds.send({.step = 1, .gradients = {kept, kept}}),
              same.send({.step = 1, .gradients = {kept, kept}}));
}

}  // namespace
