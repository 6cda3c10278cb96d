// Traces that a program writes: what is in the folder, how it continues, and what is refused.
// tests/python/repository/test_cpp_files.py compares the bytes with those of Python.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "place.h"

namespace {

using namespace apscope;
using namespace apscope_test;
namespace fs = std::filesystem;

void record(TraceWriter& writer, std::int64_t step, float first) {
    const std::vector<float> weight = {first, 2, -3, 4, 5, -6}, bias = {0.5f};
    for (int worker = 0; worker < 2; ++worker) {
        writer.add(step, worker, "fc.weight", weight, {2, 3});
        writer.add(step, worker, "fc.bias", bias);
    }
}

TEST(CppTraceWriter, EveryStepIsReadable) {
    const Place place;
    TraceWriter writer(place / "run", {.workers = 2,
                                       .model = "small",
                                       .name = "mine",
                                       .reduction = "sum",
                                       .roles = {{"fc.bias", "head"}},
                                       .metadata = {{"optimizer", "sgd"}}});
    for (const std::int64_t step : {3, 7}) {
        record(writer, step, static_cast<float>(step));
        writer.add(step, 0, "fc.weight", std::vector<float>(6, 1.0f), {2, 3}, "weights");
        writer.add(step, 0, "fc.bias", std::vector<float>(1, 1.0f), {1}, "weights");
        writer.add(step, 1, "fc", std::vector<float>(4, 1.0f), {2, 2}, "layer_input");
        writer.end_step(step, {.loss = std::numeric_limits<double>::quiet_NaN()});
        const Trace trace = open_trace(place / "run");
        EXPECT_EQ(trace.steps().back(), step);
        EXPECT_EQ(trace.steps(), writer.committed());
        EXPECT_EQ(trace.read(step, "fc.weight", 1).values[0], static_cast<float>(step));
        EXPECT_EQ(trace.read(step, "fc.weight", 0, "weights").shape,
                  (std::vector<std::int64_t>{2, 3}));
        EXPECT_EQ(trace.read(step, "fc", 1, "layer_input").values.size(), 4u);
    }
    const Trace trace = open_trace(place / "run");
    EXPECT_EQ(trace.name(), "mine");
    EXPECT_EQ(trace.model(), "small");
    EXPECT_EQ(trace.reduction(), "sum");
    EXPECT_EQ(trace.workers(), 2);
    EXPECT_EQ(trace.tensors()[0].role, "linear");  // a guess from the shape
    EXPECT_EQ(trace.tensors()[1].role, "head");
    EXPECT_NE(text_of(place / "run/manifest.json").find("1 of 2: fc.weight"), std::string::npos);
    EXPECT_NE(text_of(place / "run/manifest.json").find("\"loss\": \"NaN\""), std::string::npos);
}

TEST(CppTraceWriter, RefusesAndKeepsWhatIsCommitted) {
    const Place place;
    TraceWriter writer(place / "run", {.workers = 2});
    record(writer, 0, 1);
    writer.end_step(0);
    const std::vector<float> six(6);
    EXPECT_THROW(writer.add(0, 0, "fc.weight", six, {2, 3}), std::invalid_argument);
    EXPECT_THROW(writer.add(-1, 0, "fc.weight", six, {2, 3}), std::invalid_argument);
    EXPECT_EQ(error_of([&] { writer.add(1, 2, "fc.weight", six, {2, 3}); }),
              "worker=2 must be from 0 to 1");
    EXPECT_EQ(error_of([&] { writer.add(1, 0, "fc.weight", six, {2, 2}); }),
              "the tensor 'fc.weight' has 6 values, which do not fill the shape (2, 2)");
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {0}, {-2, -3}, {std::int64_t{1} << 62, 4, 6}})
        EXPECT_THROW(writer.add(1, 0, "w", six, shape), std::invalid_argument);
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{2}, {0, -5}})
        EXPECT_THROW(writer.add(1, 0, "w", {}, shape), std::invalid_argument);
    EXPECT_THROW(writer.add(1, 0, "fc.weight", six, {2, 3}, "colour"), std::invalid_argument);
    EXPECT_THROW(writer.add(1, 0, "\xff", six, {6}), std::invalid_argument);
    writer.add(1, 0, "fc.weight", six, {3, 2});
    EXPECT_THROW(writer.add(1, 0, "fc.weight", six, {3, 2}), std::invalid_argument);  // twice
    EXPECT_THROW(writer.add(2, 0, "fc.bias", six), std::invalid_argument);  // step 1 is open
    EXPECT_EQ(error_of([&] { writer.end_step(1); }), "step 1 lacks the gradients of worker 1 of 2");
    writer.add(1, 1, "fc.weight", six, {2, 3});
    EXPECT_EQ(error_of([&] { writer.end_step(1); }),
              "worker 0 at step 1: tensor 'fc.weight' has shape (3, 2), but had (2, 3) before");
    writer.close();
    const TraceWriter moved = std::move(writer);
    EXPECT_EQ(moved.committed(), (std::vector<std::int64_t>{0}));
    EXPECT_NE(error_of([&] { writer.close(); }).find("was moved from"), std::string::npos);
    EXPECT_EQ(open_trace(place / "run").steps(), (std::vector<std::int64_t>{0}));
    EXPECT_THROW(TraceWriter(place / "run"), std::invalid_argument);  // there is a trace
    EXPECT_THROW(TraceWriter(place / "new", {.workers = 0}), std::invalid_argument);
    EXPECT_THROW(TraceWriter(place / "new", {.stage = "early"}), std::invalid_argument);
    EXPECT_THROW(TraceWriter(place / "run/manifest.json/new"), std::runtime_error);
    try {
        const TraceWriter on_file(place / "run/manifest.json");
        ADD_FAILURE() << "a file was accepted as a folder";
    } catch (const error& refused) {
        EXPECT_EQ(refused.kind(), ErrorKind::existing_file);
    }
}

TEST(CppTraceWriter, ProcessesWriteTheirOwnFiles) {
    const Place place;
    TraceWriter first(place / "run", {.workers = 2}), second(place / "run", {.workers = 2});
    const std::vector<float> zero = {0, 1}, one = {2, 3};
    first.add(5, 0, "w", zero);
    second.add(5, 1, "w", one);
    std::vector<TraceFile> files = first.write_files(5);
    EXPECT_EQ(files.at(0).name, "worker_0000.safetensors");
    EXPECT_THROW(first.commit(5, files), std::invalid_argument);  // worker 1 is missing
    EXPECT_FALSE(fs::exists(place / "run/step_00000005/worker_0000.safetensors"));
    files.push_back(second.write_files(5).at(0));
    first.commit(5, files);
    const Trace trace = open_trace(place / "run");
    EXPECT_EQ(trace.read(5, "w", 1).values[1], 3.0f);
    second.add(6, 0, "w", zero);
    second.add(6, 1, "w", one);
    EXPECT_NE(error_of([&] { second.end_step(6); }).find("another process writes"),
              std::string::npos);
    first.close();
    EXPECT_FALSE(fs::exists(place / "run/.manifest.json.apscope-lock"));
    EXPECT_NE(error_of([&] { second.end_step(6); }).find("which another process wrote"),
              std::string::npos);
    const std::string digest(64, '0');
    files = {{"worker_0000.safetensors", 1, digest}, {"worker_0001.safetensors", 1, digest}};
    EXPECT_NE(error_of([&] { first.commit(7, files); }).find("is missing"), std::string::npos);
}

TEST(CppTraceWriter, RefusesWhatNoReaderAccepts) {
    const Place place;
    EXPECT_EQ(error_of([&] { TraceWriter(place / "new", {.workers = 1'000'001}); }),
              "workers is 1000001; a trace has from 1 to 1000000");
    TraceWriter writer(place / "run", {.sampled_from = {{"sample", 4}}});
    const std::vector<float> five(5);
    for (const std::vector<float>& values : {five, {}})
        EXPECT_EQ(error_of([&] { writer.add(0, 0, "sample", values); }),
                  "sampled_from of 'sample' is 4, but a sample of " +
                      std::to_string(values.size()) +
                      " elements was added; a sample has from 1 to sampled_from elements");
    for (const char* kind : {"gradient", "weights", "full_batch"})
        EXPECT_NE(error_of([&] {
                      writer.add(0, 0, "__metadata__", five, {5}, kind);
                  }).find("'__metadata__' is reserved in safetensors files"),
                  std::string::npos);
    writer.add(0, 0, "__metadata__", five, {5}, "layer_input");  // its key has the kind before it
    writer.add(0, 0, "w", five);
    const std::vector<TraceFile> files = writer.write_files(0);
    std::ofstream(place / "run/x");
    const std::string digest(64, '0');
    for (const TraceFile& wrong : {TraceFile{"../x", 0, digest},
                                   {"x", 0, digest},
                                   {"worker_0001.safetensors", 0, digest},
                                   {"worker_0000.safetensors", 0, "0/../../x"}}) {
        std::vector<TraceFile> with_wrong = files;
        with_wrong.push_back(wrong);
        EXPECT_NE(error_of([&] {
                      writer.commit(0, with_wrong);
                  }).find("is not a file of a trace with workers=1; give what write_files"),
                  std::string::npos)
            << wrong.name;
    }
    writer.commit(0, files);
    EXPECT_EQ(open_trace(place / "run").read(0, "__metadata__", 0, "layer_input").values.size(),
              5u);
}

TEST(CppTraceWriter, ContinuesATrace) {
    const Place place;
    const fs::path run = place / "run";
    TraceWriter(run, {.workers = 2, .resume = true}).close();  // there is no trace yet
    {
        TraceWriter writer(run, {.workers = 2, .sampled_from = {{"fc.weight", 60}}});
        record(writer, 3, 1);
        writer.end_step(3, {.loss = 0.1});
        record(writer, 4, 1);
        (void)writer.write_files(4);  // never committed
    }
    const std::string before = text_of(run / "manifest.json");
    std::ofstream(run / "step_00000003/.worker_0001.safetensors.apscope-0123abcd");
    std::ofstream(run / "step_00000003/.notes.txt.apscope-0123abcd");
    std::ofstream(run / ".manifest.json.apscope-0123abcd");
    {
        TraceWriter writer(run, {.workers = 2, .resume = true});
        EXPECT_EQ(writer.committed(), (std::vector<std::int64_t>{3}));
        EXPECT_EQ(error_of([&] { record(writer, 3, 1); }),
                  "step 3 must be 4 or more; steps are recorded in ascending order");
        EXPECT_EQ(text_of(run / "manifest.json"), before);
        writer.add(5, 0, "fc.weight", std::vector<float>(6), {2, 3});
        writer.add(5, 1, "fc.weight", std::vector<float>(6), {2, 3});
        EXPECT_EQ(error_of([&] { writer.end_step(5); }),
                  "worker 0 at step 5 lacks the tensor 'fc.bias'");
        writer.close();
        record(writer, 5, 7);
        writer.end_step(5);
        EXPECT_EQ(Place::names_of(run / "step_00000003").size(), 4u);
    }
    EXPECT_EQ(Place::names_of(run / "step_00000003"),
              (std::vector<std::string>{".notes.txt.apscope-0123abcd", "worker_0000.safetensors",
                                        "worker_0001.safetensors"}));
    EXPECT_EQ(Place::names_of(run),
              (std::vector<std::string>{"manifest.json", "step_00000003", "step_00000005"}));
    const Trace trace = open_trace(run);
    EXPECT_EQ(trace.steps(), (std::vector<std::int64_t>{3, 5}));
    EXPECT_EQ(trace.read(5, "fc.weight", 1).values[0], 7.0f);
    EXPECT_NE(text_of(run / "manifest.json").find("\"sampled_from\": 60"), std::string::npos);

    const std::string in = run.string() + " has a trace with ";
    EXPECT_EQ(error_of([&] { TraceWriter(run, {.workers = 3, .resume = true}); }),
              in + "workers 2, not 3; record into a new folder");
    EXPECT_EQ(
        error_of([&] { TraceWriter(run, {.workers = 2, .reduction = "sum", .resume = true}); }),
        in + "reduction 'mean', not 'sum'; record into a new folder");
    TraceWriter first(run, {.workers = 2, .resume = true}),
        second(run, {.workers = 2, .resume = true});
    record(first, 6, 1);
    first.end_step(6);
    first.close();
    record(second, 6, 1);
    EXPECT_NE(error_of([&] { second.end_step(6); }).find("which another process wrote"),
              std::string::npos);
    std::ofstream(run / "manifest.json") << "{}";
    try {
        const TraceWriter damaged(run, {.workers = 2, .resume = true});
        ADD_FAILURE() << "a damaged manifest was continued";
    } catch (const error& refused) {
        EXPECT_EQ(refused.kind(), ErrorKind::unreadable_file);
        EXPECT_NE(std::string(refused.what()).find("; record into a new folder"),
                  std::string::npos);
    }
}

TEST(CppTraceWriter, StoresHalfPrecision) {
    const Place place;
    TraceWriter writer(place / "run");
    const std::vector<std::uint16_t> codes = {0x3c00, 0xc100, 0x0001};
    writer.add(0, 0, "half", codes, format("fp16"), {3});
    writer.add(0, 0, "brain", codes, format("bf16"), {3, 1});
    EXPECT_EQ(error_of([&] { writer.add(0, 0, "other", codes, format("e4m3"), {3}); }),
              "the tensor 'other' has codes of e4m3; a trace stores fp16, bf16 and fp32, so decode "
              "them");
    EXPECT_EQ(error_of([&] { writer.add(0, 0, "other", codes, format("bf16"), {4}); }),
              "the tensor 'other' has 3 values, which do not fill the shape (4,)");
    writer.end_step(0);
    const Trace trace = open_trace(place / "run");
    EXPECT_TRUE(std::ranges::equal(trace.read(0, "half", 0).values,
                                   std::vector<float>{1.0f, -2.5f, 0x1p-24f}));
    EXPECT_TRUE(std::ranges::equal(trace.read(0, "brain", 0).values,
                                   std::vector<float>{0x1p-7f, -8.0f, 0x1p-133f}));
}

TEST(CppTraceWriter, NamesInErrorsAreOnOneLine) {
    const Place place;
    TraceWriter writer(place / "run");
    EXPECT_EQ(error_of([&] { writer.add(0, 0, "a\nb\x1b", std::vector<float>(2), {3}); }),
              "the tensor 'a\\nb\\x1B' has 2 values, which do not fill the shape (3,)");
    EXPECT_EQ(error_of([&] { TraceWriter(place / "new", {.stage = "a\tb"}); }),
              "stage is 'a\\tb'; it must be one of 'local', 'reduced', 'clipped'");
}

TEST(CppTraceWriter, WorkersMayAddTensorsInAnyOrder) {
    const Place place;
    TraceWriter writer(place / "run", {.workers = 2});
    const std::vector<float> two(2), three(3);
    writer.add(0, 0, "a", two);
    writer.add(0, 0, "b", three);
    writer.add(0, 1, "b", three);
    writer.add(0, 1, "a", two);
    writer.end_step(0);
    EXPECT_EQ(open_trace(place / "run").tensors().size(), 2u);
    writer.add(1, 0, "a", two);
    writer.add(1, 0, "c", three);
    writer.add(1, 1, "a", two);
    EXPECT_EQ(error_of([&] { writer.end_step(1); }), "worker 0 at step 1 lacks the tensor 'b'");
    writer.add(1, 0, "b", three);
    EXPECT_EQ(error_of([&] { writer.end_step(1); }),
              "worker 0 at step 1 has the tensor 'c', which the trace does not have");
}

TEST(CppTraceWriter, EveryRankMayWriteTheWeights) {
    const Place place;
    TraceWriter first(place / "run", {.workers = 2}), second(place / "run", {.workers = 2});
    const std::vector<float> values = {0, 1}, others = {2, 3};
    const auto files_of = [&](std::int64_t step, const std::vector<float>& weights) {
        std::vector<TraceFile> files;
        for (TraceWriter* writer : {&first, &second}) {
            const int rank = writer == &second;
            writer->add(step, rank, "w", values);
            writer->add(step, rank, "w", rank == 0 ? values : weights, {2}, "weights");
            for (const TraceFile& file : writer->write_files(step)) files.push_back(file);
        }
        return files;
    };
    first.commit(0, files_of(0, values));
    EXPECT_EQ(open_trace(place / "run").read(0, "w", 0, "weights").values[1], 1.0f);
    const std::vector<TraceFile> files = files_of(1, others);
    EXPECT_EQ(error_of([&] { first.commit(1, files); }),
              "two processes wrote different 'weights.safetensors' of step 1; let one process "
              "write it, or all the same values");
    EXPECT_EQ(open_trace(place / "run").steps(), (std::vector<std::int64_t>{0}));
}

TEST(CppTraceWriter, CommitNeedsTheShapes) {
    const Place place;
    TraceWriter writer(place / "run"), other(place / "run");
    writer.add(0, 0, "w", std::vector<float>(2));
    const std::vector<TraceFile> files = writer.write_files(0);
    EXPECT_NE(error_of([&] { other.commit(0, files); }).find("this process wrote no gradients"),
              std::string::npos);
    other.close();
    writer.commit(0, files);
    EXPECT_EQ(open_trace(place / "run").tensors().size(), 1u);
}

TEST(CppTraceWriter, AStepCanBeEndedAgain) {
    const Place place;
    TraceWriter writer(place / "run", {.workers = 2});
    record(writer, 0, 1);
    fs::create_directory(place / "run/manifest.json");  // no file can have this name now
    EXPECT_THROW(writer.end_step(0), std::runtime_error);
    EXPECT_TRUE(writer.committed().empty());
    fs::remove(place / "run/manifest.json");
    EXPECT_EQ(error_of([&] { writer.end_step(0); }), "no error");
    EXPECT_EQ(open_trace(place / "run").steps(), (std::vector<std::int64_t>{0}));
}

TEST(CppTraceWriter, TheLockNamesItsProcess) {
    const Place place;
    TraceWriter writer(place / "run", {.workers = 2});
    record(writer, 0, 1);
    writer.end_step(0);
    const fs::path lock = place / "run/.manifest.json.apscope-lock";
    for (const char* key :
         {"\"doing\": \"apscope::TraceWriter\", \"process\": ", "\"host\": \"", "\"since\": \"2"})
        EXPECT_NE(text_of(lock).find(key), std::string::npos) << key;
    fs::remove(lock);  // another process may hold a new one
    std::ofstream(lock) << "of another process";
    record(writer, 1, 1);
    EXPECT_NE(error_of([&] { writer.end_step(1); }).find("another process uses it now"),
              std::string::npos);
    writer.close();
    EXPECT_EQ(text_of(lock), "of another process");
}

}  // namespace
