// apscope::error: its kinds, and that every refusal of the library is one, with the sentence of the
// folder that refused.
#include <apscope/apscope.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace apscope;
namespace fs = std::filesystem;

// A folder for one test, with a copy of a trace.
class Place {
public:
    Place() {
        std::string name = (fs::temp_directory_path() / "apscope-XXXXXX").string();
        path_ = mkdtemp(name.data());
        fs::copy(APSCOPE_ROOT "/notebooks/data/digits", trace(), fs::copy_options::recursive);
    }
    ~Place() { fs::remove_all(path_); }
    fs::path operator/(const char* name) const { return path_ / name; }
    fs::path trace() const { return path_ / "trace"; }
    fs::path manifest() const { return trace() / "manifest.json"; }
    // One of the trace's files of gradients.
    fs::path gradients() const {
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(trace()))
            if (entry.path().extension() == ".safetensors") return entry.path();
        return {};
    }

private:
    fs::path path_;
};

void put(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

struct Refusal {
    ErrorKind kind;
    std::string sentence;
};

Refusal refusal_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const error& caught) {
        return {caught.kind(), caught.what()};
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
}

ErrorKind kind_of(const std::function<void()>& work) { return refusal_of(work).kind; }

const std::vector<float> numbers = {0.5f, 1, 2, 3};

TEST(CppErrors, AnErrorIsAnInvalidArgumentWithAKind) {
    const error plain("a sentence"), other("another", ErrorKind::missing_file);
    EXPECT_EQ(plain.kind(), ErrorKind::invalid_value);
    EXPECT_STREQ(plain.what(), "a sentence");
    EXPECT_EQ(error(other).kind(), ErrorKind::missing_file);
    EXPECT_THROW((void)format("e4m"), std::invalid_argument);
}

TEST(CppErrors, ARefusedArgumentIsAnInvalidValue) {
    const FloatFormat e4m3 = format("e4m3");
    const Quantizer q{e4m3};
    const std::vector<std::vector<float>> rows = {numbers, numbers};
    const std::vector<std::span<const float>> gradients = {numbers, numbers};
    std::vector<float> out(4), row = {1, 2, 3, 4, 5};
    std::vector<double> sum(4);
    const std::span<const float> none;
    const std::vector<std::size_t> three = {3};
    Memory memory;
    const std::function<void()> works[] = {
        [] { (void)format("e4m"); },
        [] { (void)block_format("mxfp5"); },
        [] { (void)parse_rounding("nearest"); },
        [] { (void)with_bias(FloatFormat{}, 1 << 20); },
        [&] { (void)Quantizer(e4m3, {}, 0, -1); },
        [&] { q(std::span<const float>(row).first(4), std::span(row).last(4)); },
        [&] { q(std::span<const float>(numbers), std::span(out).first(2)); },
        [&] { q.scaled(0, numbers, out); },
        [&] { (void)q.decode(1 << 20); },
        [&] { (void)cast_statistics(row, q, std::span(row).first(4)); },
        [&] { (void)BlockQuantizer(block_format("mxfp4"))(numbers, out, three, 0); },
        [&] { arithmetic("ad", numbers, numbers, none, out, {e4m3}); },
        [&] { apscope::sum(numbers, 3, out, {e4m3}); },
        [&] { apscope::sum(numbers, 1, out, {.format = e4m3, .order = "chunk"}); },
        [&] { matmul(numbers, numbers, out, {.rows = 3}, {e4m3}); },
        [&] { allreduce(numbers, 0, sum, e4m3); },
        [&] { (void)allreduce(rows, e4m3, {.topology = "rings"}); },
        [&] { (void)exchange("app:e4m3", gradients, {}, memory); },
        [&] { (void)exchange("aps:e4m3", gradients, {.topology = "rings"}, memory); },
        [] { TrainingExchange("aps:e4m3", {{"x", "other", {4}}}, 0); },
        [] { RankExchange("aps:e4m3", {{"x", "other", {4}}}, 2, 2, "two_phase"); },
        [] { (void)scheme("app:e4m3"); },
        [] { (void)define_scheme("aps", {}); },
        [] { (void)collective("rings", 1, 2); },
        [] { (void)pack(std::vector<std::uint8_t>{1, 2, 3}, 4, 2); },
        [] { (void)pack(std::vector<std::uint8_t>{1}, 99); },
    };
    for (std::size_t i = 0; i < std::size(works); ++i) {
        SCOPED_TRACE(i);
        const Refusal refusal = refusal_of(works[i]);
        EXPECT_EQ(refusal.kind, ErrorKind::invalid_value) << refusal.sentence;
        EXPECT_FALSE(refusal.sentence.empty());
    }
}

TEST(CppErrors, ARefusedQuestionToATraceOrToResultsIsAnInvalidValue) {
    const Place place;
    const Trace trace = open_trace(place.trace());
    const Results results = replay(trace, {"none:e4m3"}, {.end_step = 1});
    const std::function<void()> works[] = {
        [&] { (void)trace.read(1 << 30, "x", 0); },
        [&] { (void)trace.read(trace.steps()[0], "no such tensor", 0); },
        [&] { (void)trace.read(trace.steps()[0], trace.tensors()[0].name, 0, "gradients"); },
        [&] { (void)replay(trace, {}); },
        [&] { (void)replay(trace, {"non:e4m3"}); },
        [&] { (void)replay(trace, {"none:e4m3"}, {.workers = 1 << 20}); },
        [&] { (void)replay(trace, {"none:e4m3"}, {.tensors = "("}); },
        [&] { (void)results.number(0, "no such column"); },
        [&] { (void)results.by("worker"); },
        [&] { (void)results.pool({"no such column"}); },
        [&] { (void)results.compare("none:e4m3", "aps:e4m3"); },
        [&] { TraceWriter(place / "new", {.workers = 0}); },
        [&] { TraceWriter(place / "new", {}).add(0, 0, "x", numbers, {4}, "gradients"); },
    };
    for (std::size_t i = 0; i < std::size(works); ++i) {
        SCOPED_TRACE(i);
        const Refusal refusal = refusal_of(works[i]);
        EXPECT_EQ(refusal.kind, ErrorKind::invalid_value) << refusal.sentence;
    }
}

TEST(CppErrors, WhatDoesNotWorkTogetherIsUnsupported) {
    const Quantizer wide{format("fp64")};
    std::vector<float> out(4);
    std::vector<double> sum(4);
    EXPECT_EQ(kind_of([&] { (void)wide(0.5f); }), ErrorKind::unsupported);
    EXPECT_EQ(kind_of([&] { allreduce(numbers, 1, sum, format("fp64")); }), ErrorKind::unsupported);
    EXPECT_EQ(kind_of([] { Quantizer(format("e2m1fn"), {.overflow = Overflow::nan}); }),
              ErrorKind::unsupported);
    EXPECT_EQ(kind_of([&] {
                  arithmetic("add", numbers, numbers, {}, out,
                             {format("e4m3"), {.rounding = RoundingMode::stochastic_exact}});
              }),
              ErrorKind::unsupported);
    EXPECT_EQ(kind_of([] { RankExchange("aps:e4m3", {{"x", "other", {4}}}, 0, 2, "ring"); }),
              ErrorKind::unsupported);
}

TEST(CppErrors, AFileThatIsNotThereIsMissing) {
    const Place place;
    EXPECT_EQ(kind_of([&] { (void)open_trace(place / "nothing"); }), ErrorKind::missing_file);
    const Trace trace = open_trace(place.trace());
    fs::remove(place.gradients());
    EXPECT_EQ(kind_of([&] { (void)open_trace(place.trace()); }), ErrorKind::missing_file);
    const Refusal replayed = refusal_of([&] { (void)replay(trace, {"none:e4m3"}); });
    EXPECT_EQ(replayed.kind, ErrorKind::missing_file) << replayed.sentence;
    fs::remove(place.manifest());
    const Refusal refusal = refusal_of([&] { (void)open_trace(place.trace()); });
    EXPECT_EQ(refusal.kind, ErrorKind::missing_file);
    EXPECT_NE(refusal.sentence.find("has no manifest.json"), std::string::npos);
}

TEST(CppErrors, ADamagedFileIsUnreadable) {
    const Place place;
    const auto bytes = fs::file_size(place.gradients());
    put(place.gradients(), std::string(bytes, 'x'));  // no header
    EXPECT_EQ(kind_of([&] { (void)replay(open_trace(place.trace()), {"none:e4m3"}); }),
              ErrorKind::unreadable_file);
    fs::resize_file(place.gradients(), bytes / 2);
    EXPECT_EQ(kind_of([&] { (void)open_trace(place.trace()); }), ErrorKind::unreadable_file);
    for (const char* text : {"", "{", "[]", R"({"schema_version": 1})", R"({"a": 1, "a": 2})"}) {
        put(place.manifest(), text);
        EXPECT_EQ(kind_of([&] { (void)open_trace(place.trace()); }), ErrorKind::unreadable_file)
            << text;
    }
    put(place.manifest(), R"({"schema_version": 1000})");
    EXPECT_EQ(kind_of([&] { (void)open_trace(place.trace()); }), ErrorKind::unsupported);
}

TEST(CppErrors, FilesThatAreAlreadyThereAreNotReplaced) {
    const Place place;
    EXPECT_EQ(kind_of([&] { TraceWriter(place.trace(), {}); }), ErrorKind::existing_file);
    const Results results = replay(open_trace(place.trace()), {"none:e4m3"}, {.end_step = 1});
    EXPECT_EQ(kind_of([&] { results.write(place.trace()); }), ErrorKind::existing_file);
    results.write(place / "results");
    EXPECT_EQ(kind_of([&] { results.write(place / "results"); }), ErrorKind::existing_file);
    results.write(place / "results", {.replace = true});
}

TEST(CppErrors, WhatACallersFunctionThrowsPasses) {
    struct OwnError : std::invalid_argument {
        OwnError() : std::invalid_argument("own") {}
    };
    const Place place;
    ReplayOptions options{.end_step = 1};
    options.progress = [](std::size_t, std::size_t) { throw OwnError(); };
    EXPECT_THROW((void)replay(open_trace(place.trace()), {"none:e4m3"}, options), OwnError);
    options.progress = [](std::size_t, std::size_t) { throw std::runtime_error("own"); };
    EXPECT_THROW((void)replay(open_trace(place.trace()), {"none:e4m3"}, options),
                 std::runtime_error);
}

}  // namespace
