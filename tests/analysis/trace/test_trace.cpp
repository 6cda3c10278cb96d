#include "analysis/trace/trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "tests/support/trace_files.h"

namespace apscope::detail {
namespace {

using nlohmann::json;

// Two workers, steps 3 and 10, tensors a [2] and b [1,1]; worker w's a at step s is {s, w}.
class TraceTest : public ::testing::Test {
protected:
    TraceTest() {
        manifest_ = {{"schema_version", 1},
                     {"model", "tiny"},
                     {"stage", "local"},
                     {"reduction", "mean"},
                     {"loss_divided_by_workers", true},
                     {"workers", 2},
                     {"tensors",
                      {{{"name", "a"}, {"shape", {2}}, {"role", "conv"}},
                       {{"name", "b"}, {"shape", {1, 1}}, {"role", "bias"}}}},
                     {"steps", json::array()}};
        for (const int step : {3, 10}) {
            json files;
            for (const int worker : {0, 1})
                add(files, step, "worker_000" + std::to_string(worker),
                    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1,1],"data_offsets":[8,10]}})",
                    test::bytes_of<float>({float(step), float(worker)}) +
                        test::bytes_of<std::uint16_t>({0x3f80}));
            if (step == 3)
                add(files, step, "activations_worker_0000",
                    R"({"layer_input/fc":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                    test::bytes_of<float>({7.0f}));
            manifest_["steps"].push_back({{"number", step},
                                          {"loss", step == 3 ? json(2.5) : json("NaN")},
                                          {"files", files}});
        }
        write_manifest();
    }
    void add(json& files, int step, const std::string& stem, const std::string& header,
             const std::string& data) {
        char folder[32];
        std::snprintf(folder, sizeof folder, "step_%08d", step);
        const std::string bytes = test::safetensors_bytes(header, data);
        test::write_file(path() / folder / (stem + ".safetensors"), bytes);
        files[stem + ".safetensors"] = {{"bytes", bytes.size()}, {"sha256", std::string(64, '0')}};
    }
    void write_manifest() { test::write_file(path() / "manifest.json", manifest_.dump()); }
    void expect_refused(const std::string& words, const std::string& file = "manifest.json") {
        write_manifest();
        const std::string message = test::message_of([&] { Trace::open(path()); });
        EXPECT_NE(message.find(words), std::string::npos) << "got: " << message;
        EXPECT_NE(message.find(file), std::string::npos) << "got: " << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << "got: " << message;
    }
    std::filesystem::path path() const { return folder_.path() / "run7"; }
    test::TemporaryFolder folder_;
    json manifest_;
};

TEST_F(TraceTest, GivesTheManifestAndEveryWorkersGradient) {
    const Trace trace = Trace::open(path());
    const Manifest& manifest = trace.manifest();
    EXPECT_EQ(manifest.name, "run7");
    EXPECT_EQ(manifest.model, "tiny");
    EXPECT_TRUE(manifest.loss_divided_by_workers);
    EXPECT_EQ(manifest.tensors[1].role, "bias");
    EXPECT_EQ(manifest.tensors[0].size(), 2u);
    EXPECT_EQ(manifest.steps[0].loss, 2.5);
    EXPECT_TRUE(std::isnan(*manifest.steps[1].loss));
    EXPECT_FALSE(manifest.steps[0].learning_rate.has_value());
    for (std::size_t step = 0; step < 2; ++step) {
        for (int worker = 0; worker < 2; ++worker) {
            const TensorView a = trace.gradient(step, 0, worker);
            EXPECT_EQ(a.values[0], static_cast<float>(manifest.steps[step].number));
            EXPECT_EQ(a.values[1], static_cast<float>(worker));
            EXPECT_EQ(trace.gradient(step, 1, worker).values[0], 1.0f);
        }
    }
    EXPECT_THROW(trace.gradient(2, 0, 0), std::out_of_range);
    EXPECT_THROW(trace.gradient(0, 2, 0), std::out_of_range);
    EXPECT_THROW(trace.gradient(0, 0, 2), std::out_of_range);
}

TEST_F(TraceTest, ReadsByStepNumberAndKind) {
    const Trace trace = Trace::open(path());
    EXPECT_EQ(trace.read(10, "a", 1).values[0], 10.0f);
    EXPECT_EQ(trace.read(3, "fc", 0, Kind::layer_input).values[0], 7.0f);
    EXPECT_EQ(trace.names(0, Kind::layer_input), std::vector<std::string>{"fc"});
    EXPECT_EQ(trace.names(0, Kind::gradient), (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(trace.has(0, Kind::layer_input));
    EXPECT_FALSE(trace.has(0, Kind::activation_gradient));
    EXPECT_FALSE(trace.has(1, Kind::layer_input));
    EXPECT_NE(test::message_of([&] { trace.read(4, "a", 0); }).find("step 4 was not recorded"),
              std::string::npos);
    EXPECT_NE(test::message_of([&] { trace.read(3, "a", 2); }).find("no worker 2"),
              std::string::npos);
    EXPECT_NE(test::message_of([&] { trace.read(3, "c", 0); }).find("no tensor 'c'"),
              std::string::npos);
    EXPECT_NE(test::message_of([&] {
                  trace.read(3, "a", 0, Kind::weights);
              }).find("weights was not recorded at step 3"),
              std::string::npos);
}

TEST_F(TraceTest, AViewOutlivesTheTrace) {
    TensorView view;
    { view = Trace::open(path()).gradient(0, 0, 1); }
    std::filesystem::remove_all(path());
    EXPECT_EQ(view.values[1], 1.0f);
}

TEST_F(TraceTest, SeveralThreadsReadAtOnce) {
    const Trace trace = Trace::open(path());
    std::vector<std::thread> threads;
    std::vector<float> sums(4);
    for (std::size_t t = 0; t < sums.size(); ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 200; ++i) sums[t] += trace.gradient(i % 2, 0, i / 2 % 2).values[1];
        });
    for (auto& thread : threads) thread.join();
    for (const float sum : sums) EXPECT_EQ(sum, 100.0f);
}

TEST_F(TraceTest, RefusesFilesThatDisagreeWithTheManifest) {
    manifest_["tensors"][0]["shape"] = {2, 1};
    write_manifest();
    const Trace trace = Trace::open(path());
    const std::string message = test::message_of([&] { trace.gradient(0, 0, 0); });
    EXPECT_NE(
        message.find(
            "worker_0000.safetensors: tensor 'a' has shape (2,), but the manifest says (2, 1)"),
        std::string::npos)
        << message;
    std::filesystem::resize_file(path() / "step_00000003/worker_0001.safetensors", 40);
    expect_refused("is truncated", "step_00000003/worker_0001.safetensors");
    std::filesystem::remove(path() / "step_00000003/worker_0001.safetensors");
    expect_refused("is missing", "step_00000003/worker_0001.safetensors");
}

TEST_F(TraceTest, RefusesAMissingWorker) {
    manifest_["steps"][1]["files"].erase("worker_0001.safetensors");
    expect_refused("(number 10) lists no file 'worker_0001.safetensors'");
}

TEST_F(TraceTest, RefusesMalformedManifests) {
    const json good = manifest_;
    const auto refused_with = [&](const char* pointer, json value, const std::string& words) {
        manifest_ = good;
        manifest_[json::json_pointer(pointer)] = std::move(value);
        expect_refused(words);
    };
    refused_with("/schema_version", 2, "schema_version is 2");
    refused_with("/stage", "global", "stage 'global'; it must be one of local, reduced, clipped");
    refused_with("/reduction", "average", "reduction 'average'");
    refused_with("/workers", 0, "workers 0");
    refused_with("/workers", 1,
                 "'worker_0001.safetensors', is not a file of a trace with 1 workers");
    refused_with("/workers", "two", "must be an integer of at least 0");
    refused_with("/typo", 1, "unknown field 'typo'");
    refused_with("/tensors/1/name", "a", "the tensor 'a' twice");
    refused_with("/tensors/1/shape", {-1}, "tensors[1] has shape [-1]");
    refused_with("/steps/1/number", 3, "numbers must ascend");
    refused_with("/steps/1/files/worker_0000.safetensors/sha256", "XYZ",
                 "64 lower-case hexadecimal digits");
    refused_with("/metadata", {{"seed", 1}}, "metadata 'seed' that is not a string");
    manifest_ = good;
    manifest_.erase("reduction");
    expect_refused("lacks the field 'reduction'");
    manifest_ = good;
    manifest_["name"] = "digits";
    write_manifest();
    EXPECT_EQ(Trace::open(path()).manifest().name, "digits");
    EXPECT_NE(test::message_of([&] { Trace::open(folder_.path()); }).find("no manifest.json"),
              std::string::npos);
    EXPECT_NE(test::message_of([&] { Trace::open(path() / "gone"); }).find("gone is not a trace"),
              std::string::npos);
}

}  // namespace
}  // namespace apscope::detail
