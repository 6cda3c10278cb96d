#include "analysis/trace/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "tests/support/trace_files.h"

namespace apscope::detail {
namespace {

using test::bytes_of;
using test::safetensors_bytes;

class Safetensors : public ::testing::Test {
protected:
    std::shared_ptr<const SafetensorsFile> open(const std::string& bytes) {
        test::write_file(path(), bytes);
        return SafetensorsFile::open(path());
    }
    std::filesystem::path path() const { return folder_.path() / "x.safetensors"; }
    // Every error message is one sentence that contains the file's name.
    void expect_refused(const std::string& bytes, const std::string& words) {
        const std::string message = test::message_of([&] { open(bytes); });
        EXPECT_NE(message.find(words), std::string::npos) << "got: " << message;
        EXPECT_NE(message.find("x.safetensors"), std::string::npos) << "got: " << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << "got: " << message;
    }
    // The bytes of a file with one tensor, a.
    static std::string file_of(const std::vector<float>& values) {
        return safetensors_bytes(R"({"a":{"dtype":"F32","shape":[)" +
                                     std::to_string(values.size()) + R"(],"data_offsets":[0,)" +
                                     std::to_string(4 * values.size()) + "]}}",
                                 bytes_of(values));
    }
    test::TemporaryFolder folder_;
};

const std::string good_header =
    R"({"__metadata__":{"step":"7"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}} )";
const std::string good_data = bytes_of<float>({1.5f, -0.0f, 3.0f});

TEST_F(Safetensors, ReadsNamesShapesValuesAndMetadata) {
    const auto file = open(safetensors_bytes(good_header, good_data));
    EXPECT_EQ(file->metadata().at("step"), "7");
    const TensorView a = file->read("a");
    EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 1}));
    ASSERT_EQ(a.values.size(), 2u);
    EXPECT_EQ(a.values[0], 1.5f);
    EXPECT_TRUE(std::signbit(a.values[1]));
    EXPECT_EQ(file->read("b").values[0], 3.0f);
    EXPECT_TRUE(file->read("b").shape.empty());
}

TEST_F(Safetensors, AViewOutlivesTheFileObject) {
    auto file = open(safetensors_bytes(good_header, good_data));
    const TensorView view = file->read("a");
    file.reset();
    EXPECT_EQ(view.values[0], 1.5f);
}

// Of a large view the pages are dropped at once; of views of 64 KiB, with the header, every second
// drops the file's.
TEST_F(Safetensors, DroppingPagesLosesNothing) {
    for (const std::size_t n : {std::size_t{1} << 20, std::size_t{1} << 14}) {
        std::vector<float> values(n);
        std::iota(values.begin(), values.end(), 0.0f);
        const auto file = open(file_of(values));
        const TensorView kept = file->read("a");
        for (int i = 0; i < 9; ++i) file->read("a");
        EXPECT_TRUE(std::ranges::equal(values, kept.values));
    }
}

TEST_F(Safetensors, ReadsUnalignedTensors) {
    // The header's length is odd, so the data begins at an odd address.
    std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    if (header.size() % 2 == 0) header += ' ';
    const auto file = open(safetensors_bytes(header, bytes_of<float>({1.5f, 2.5f})));
    EXPECT_EQ(file->read("a").values[1], 2.5f);
}

TEST_F(Safetensors, WidensEveryHalfPrecisionCodeExactly) {
    std::vector<std::uint16_t> codes(65536);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
    const auto file = open(
        safetensors_bytes(R"({"h":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]},)"
                          R"("b":{"dtype":"BF16","shape":[65536],"data_offsets":[131072,262144]}})",
                          bytes_of(codes) + bytes_of(codes)));
    const TensorView half = file->read("h"), brain = file->read("b");
    for (std::uint32_t code = 0; code < 65536; ++code) {
        // IEEE 754's definition of binary16, in double.
        const int field = code >> 10 & 31, fraction = code & 1023;
        const double sign = code & 0x8000 ? -1.0 : 1.0;
        const double value = field == 0    ? sign * std::ldexp(fraction, -24)
                             : field == 31 ? sign * std::numeric_limits<double>::infinity()
                                           : sign * std::ldexp(1024 + fraction, field - 25);
        if (field == 31 && fraction != 0) {
            ASSERT_TRUE(std::isnan(half.values[code])) << code;
        } else {
            ASSERT_EQ(half.values[code], value) << code;
            ASSERT_EQ(std::signbit(half.values[code]), code >= 0x8000) << code;
        }
        ASSERT_EQ(std::bit_cast<std::uint32_t>(brain.values[code]), code << 16);
    }
}

TEST_F(Safetensors, ReadsF64OnlyWhereEveryValueIsAnFp32Value) {
    const std::string header = R"({"a":{"dtype":"F64","shape":[3],"data_offsets":[0,24]}})";
    const double inf = std::numeric_limits<double>::infinity();
    const auto exact = open(safetensors_bytes(header, bytes_of<double>({0.5, -inf, 0x1p-149})));
    EXPECT_EQ(exact->read("a").values[2], 0x1p-149f);
    EXPECT_EQ(exact->read("a").values[1], -std::numeric_limits<float>::infinity());
    for (const double inexact : {0.1, 0x1p-150, 1e300, 0x1p128}) {
        const auto file = open(safetensors_bytes(header, bytes_of<double>({0.5, inexact, 1.0})));
        EXPECT_NE(test::message_of([&] { file->read("a"); }).find("element 1"), std::string::npos)
            << inexact;
    }
}

TEST_F(Safetensors, RefusesDtypesThatAreNoGradients) {
    const auto file = open(safetensors_bytes(
        R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", std::string(8, '\0')));
    EXPECT_THROW(file->read("i"), std::invalid_argument);
    EXPECT_THROW(file->read("j"), std::invalid_argument);
}

TEST_F(Safetensors, RefusesEveryTruncation) {
    const std::string whole = safetensors_bytes(good_header, good_data);
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const std::string message = test::message_of([&] { open(whole.substr(0, length)); });
        EXPECT_NE(message.find("truncated"), std::string::npos)
            << length << " bytes, got: " << message;
    }
}

TEST_F(Safetensors, RefusesOffsetsThatDoNotCoverTheFileExactly) {
    const auto two = [](const char* first, const char* second) {
        return std::string(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)") + first +
               R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + second + "}}";
    };
    const std::string data(16, '\0');
    EXPECT_EQ(test::message_of([&] { open(safetensors_bytes(two("[0,8]", "[8,16]"), data)); }), "");
    expect_refused(safetensors_bytes(two("[0,8]", "[4,12]"), data), "'b' overlap");
    expect_refused(safetensors_bytes(two("[0,8]", "[0,8]"), data), "overlap");
    expect_refused(safetensors_bytes(two("[0,8]", "[12,20]"), std::string(20, '\0')),
                   "gap of 4 bytes");
    expect_refused(safetensors_bytes(two("[0,8]", "[8,16]"), std::string(17, '\0')),
                   "1 bytes after");
    expect_refused(safetensors_bytes(two("[0,8]", "[16,8]"), data), "end before they begin");
}

TEST_F(Safetensors, RefusesMalformedHeaders) {
    const auto one = [](const std::string& fields) {
        return safetensors_bytes("{\"a\":{" + fields + "}}", std::string(8, '\0'));
    };
    expect_refused(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "needs 12 bytes");
    expect_refused(one(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), "unknown dtype 'F31'");
    expect_refused(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "shape is -2");
    expect_refused(one(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "shape is 2.0");
    expect_refused(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
                   "64 bits");
    expect_refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), "two numbers");
    expect_refused(one(R"("dtype":"F32","data_offsets":[0,8])"), "shape is missing");
    expect_refused(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"),
                   "unknown field 'x'");
    expect_refused(one(R"("dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8])"),
                   "'dtype' twice");
    expect_refused(safetensors_bytes("[]", ""), "begin with '{'");
    expect_refused(safetensors_bytes("{\"a\":", ""), "not valid JSON");
    expect_refused(safetensors_bytes(R"({"__metadata__":{"a":1}})", ""), "must be a string");
    const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
    expect_refused(one(R"("dtype":"F32","shape":)" + deep + R"(,"data_offsets":[0,8])"),
                   "nested more than 64 deep");
    std::string huge(16, '\xff');
    expect_refused(huge, "above the format's limit");
}

TEST_F(Safetensors, AnyFlippedBitIsReadOrRefusedInOneSentence) {
    const std::string whole = safetensors_bytes(good_header, good_data);
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        std::string changed = whole;
        changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
        try {
            const auto file = open(changed);
            for (const auto& [name, entry] : file->entries()) {
                if (entry.dtype == "F32") {
                    EXPECT_EQ(file->read(name).values.size(), entry.size);
                }
            }
        } catch (const std::invalid_argument& error) {
            EXPECT_NE(std::string(error.what()).find("x.safetensors"), std::string::npos)
                << error.what();
        }
    }
}

TEST_F(Safetensors, NamesAFileThatIsNotThere) {
    EXPECT_NE(test::message_of([&] { SafetensorsFile::open(path()); }).find("x.safetensors"),
              std::string::npos);
}

// Files of a trace: the same tensors, each file with its own metadata.
TEST_F(Safetensors, HeadersSeenBeforeGiveWhatParsingGives) {
    const std::string tensors =
        R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[],"data_offsets":[8,12]}})";
    const std::string other = R"("c":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
    SafetensorsHeaders seen;
    for (int round = 0; round < 2; ++round) {
        for (const std::string& metadata :
             {std::string(R"({"step":"1"})"), std::string(R"({"step":"2","x":"a,b"})"),
              std::string(R"({"step":"}"})"), std::string(R"({"step":"\"}"})"),
              std::string("{}")}) {
            for (const std::string& rest : {tensors, other}) {
                const std::string text = R"({"__metadata__":)" + metadata + "," + rest;
                const SafetensorsHeader fresh = parse_safetensors_header(text, 12, path()),
                                        got = seen.header(text, 12, path());
                EXPECT_EQ(got.metadata, fresh.metadata) << text;
                ASSERT_EQ(got.tensors->size(), fresh.tensors->size()) << text;
                for (const auto& [name, entry] : *fresh.tensors) {
                    EXPECT_EQ(got.tensors->at(name).shape, entry.shape) << text;
                    EXPECT_EQ(got.tensors->at(name).begin, entry.begin) << text;
                }
            }
        }
        EXPECT_EQ(seen.header("{" + tensors, 12, path()).tensors->size(), 2u);  // no metadata
        EXPECT_TRUE(seen.header("{" + tensors, 12, path()).metadata.empty());
    }
    const auto once = seen.header(R"({"__metadata__":{"step":"3"},)" + tensors, 12, path());
    EXPECT_EQ(once.tensors, seen.header(R"({"__metadata__":{"step":"4"},)" + tensors, 12, path())
                                .tensors);  // parsed once
}

TEST_F(Safetensors, HeadersSeenBeforeExcuseNothing) {
    const std::string tensors = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    SafetensorsHeaders seen;
    seen.header(R"({"__metadata__":{"step":"1"},)" + tensors, 8, path());
    const auto refused = [&](const std::string& text, std::uint64_t length) {
        return test::message_of([&] { seen.header(text, length, path()); });
    };
    for (const std::string& metadata :
         {std::string(R"({"step":1})"), std::string(R"({"step":"1","step":"2"})"),
          std::string(R"({"step"})"), std::string(R"({"step":{"a":"b"}})"), std::string("7")}) {
        const std::string text = R"({"__metadata__":)" + metadata + "," + tensors;
        EXPECT_FALSE(refused(text, 8).empty()) << text;
        EXPECT_EQ(refused(text, 8),
                  test::message_of([&] { parse_safetensors_header(text, 8, path()); }))
            << text;
    }
    EXPECT_NE(refused(R"({"__metadata__":{"step":"1"},)" + tensors, 9).find("1 bytes after"),
              std::string::npos);
    EXPECT_NE(refused(R"({"__metadata__":{"step":"1"},)" + tensors, 4).find("truncated"),
              std::string::npos);
}

TEST_F(Safetensors, SmallAndLargeFilesReadTheSame) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{16000}, std::size_t{16384},
                                std::size_t{17000}}) {  // read below 64 KiB, mapped from there on
        std::vector<float> values(n);
        std::iota(values.begin(), values.end(), 0.5f);
        TensorView view;
        {
            const auto file = open(file_of(values));
            for (int round = 0; round < 3; ++round) view = file->read("a");
            EXPECT_EQ(file->bytes("a").size(), 4 * n);
        }
        EXPECT_TRUE(std::ranges::equal(values, view.values));
    }
}

}  // namespace
}  // namespace apscope::detail
