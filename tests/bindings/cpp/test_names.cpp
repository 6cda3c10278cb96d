// The library's words: its version, the constants of names.h against what the library reads, and
// what values print.
#include <apscope/apscope.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace apscope;

// Names are constant expressions.
static_assert(format("e4m3fn").largest() == 448 && format("ofp8_e4m3") == format("e4m3fn"));
static_assert(format("e5m10b20").bias == 20 && format("e4m0b-3").bias == -3);
static_assert(format("binary8p3se").precision() == 3 && format("e3m4nan2inf").nan_codes == 2);

const std::vector<float> numbers = {0.5f, 1, 2, 3};

std::string printed(const auto& value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

// The words that the sentence of a refusal lists after "; use " or "; it must be ".
std::set<std::string> listed(const std::function<void()>& refused, const std::string& before) {
    try {
        refused();
    } catch (const error& caught) {
        const std::string sentence = caught.what();
        std::string list = sentence.substr(sentence.find(before) + before.size());
        for (const char* const joint : {", ", " or "})
            for (std::size_t at; (at = list.find(joint)) != std::string::npos;)
                list.replace(at, std::string(joint).size(), "\n");
        std::istringstream words(list);
        std::set<std::string> all;
        for (std::string word; std::getline(words, word);) all.insert(word);
        return all;
    }
    return {};
}

TEST(CppVersion, IsThatOfTheProject) {
    std::ifstream file(APSCOPE_ROOT "/pyproject.toml");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(text.find("\nversion = \"" APSCOPE_VERSION "\"\n"), std::string::npos);
    EXPECT_EQ(version(), APSCOPE_VERSION);
}

TEST(CppNames, TheTopologiesAreThoseThatAreRead) {
    const std::set<std::string> constants = {topology::exact,
                                             topology::sequential,
                                             topology::sequential_kahan,
                                             topology::ring,
                                             topology::tree,
                                             topology::butterfly,
                                             topology::fp32_accumulate,
                                             topology::pat,
                                             topology::nccl_ring,
                                             topology::nccl_tree,
                                             topology::nccl_symmetric,
                                             topology::nccl_nvls,
                                             topology::torch_one_shot,
                                             topology::torch_two_shot,
                                             topology::two_phase,
                                             topology::reduce_scatter,
                                             "hierarchical:G",
                                             "hierarchical:G+kahan"};
    const std::vector<std::span<const float>> gradients = {numbers, numbers};
    Memory memory;
    EXPECT_EQ(
        listed(
            [&] { (void)exchange("none:e4m3", gradients, {.topology = "no such order"}, memory); },
            "; use "),
        constants);
    for (std::string name : constants) {
        if (name == "hierarchical:G") name = topology::hierarchical(2);
        if (name == "hierarchical:G+kahan") name = topology::hierarchical_kahan(2);
        Memory own;
        EXPECT_EQ(exchange("none:e4m3", gradients, {.topology = name}, own).reduced[3], 6) << name;
    }
}

TEST(CppNames, TheOrdersOfSumsAreThoseThatAreRead) {
    std::vector<float> out(1);
    const auto sum_in = [&](const std::string& name) {
        sum(numbers, 4, out, {.format = format("fp32"), .order = name});
        return out[0];
    };
    for (const std::string& name :
         {std::string(order::sequential), std::string(order::pairwise), order::chunked(2),
          std::string(order::kahan), std::string(order::exact)})
        EXPECT_EQ(sum_in(name), 6.5f) << name;
    EXPECT_EQ(
        listed([&] { sum_in("no such order"); }, "; use "),
        (std::set<std::string>{order::sequential, order::pairwise, "chunked:N with N at least 1",
                               order::kahan, order::exact, order::unit("NAME")}));
    // A unit of CDNA 2 adds 1 and 4 first; c is its C.
    const std::vector<float> ones = {1, 1}, c = {0.5f};
    matmul(std::vector<float>{1, 4}, ones, out, {.terms = 2},
           {.format = format("fp32"), .order = order::unit("mi250x")}, c);
    EXPECT_EQ(out[0], 5.5f);
}

TEST(CppNames, TheOperationsAreThoseThatAreRead) {
    std::vector<float> out(1);
    const std::vector<float> two = {2}, four = {4};
    const auto result = [&](const char* name) {
        arithmetic(name, four, two, two, out, {format("fp32")});
        return out[0];
    };
    EXPECT_EQ(result(operation::add), 6);
    EXPECT_EQ(result(operation::subtract), 2);
    EXPECT_EQ(result(operation::multiply), 8);
    EXPECT_EQ(result(operation::divide), 2);
    EXPECT_EQ(result(operation::sqrt), 2);
    EXPECT_EQ(result(operation::fma), 10);
    EXPECT_EQ(listed([&] { result("no such operation"); }, "; use "),
              (std::set<std::string>{operation::add, operation::subtract, operation::multiply,
                                     operation::divide, operation::sqrt, operation::fma}));
}

TEST(CppNames, TheKindsAreThoseThatAreRead) {
    const Trace trace = open_trace(APSCOPE_ROOT "/notebooks/data/digits");
    EXPECT_EQ(listed([&] { (void)trace.read(0, "x", 0, "no such kind"); }, "; it must be "),
              (std::set<std::string>{kind::gradient, kind::weights, kind::full_batch,
                                     kind::activation_gradient, kind::layer_input}));
}

TEST(CppPrinting, AFormatPrintsANameThatIsRead) {
    EXPECT_EQ(printed(format("float8_e4m3fn")), "e4m3fn");
    for (const char* name : {"bf16", "e4m3", "e5m10b20", "binary8p3se"})
        EXPECT_EQ(format(printed(format(name))), format(name)) << name;
    for (const char* name : {"mxfp4", "nvfp4", "bfp:8:16", "bfp:8:16,nonfinite=torchao"})
        EXPECT_EQ(block_format(printed(block_format(name))), block_format(name)) << name;
}

TEST(CppPrinting, SettingsPrintTheirNames) {
    EXPECT_EQ(printed(RoundingMode::ties_to_even), "ties_to_even");
    EXPECT_EQ(printed(Overflow::saturate), "saturate");
    EXPECT_EQ(printed(Underflow::flush_result), "flush_result");
    EXPECT_EQ(printed(ScaleRule::rceil), "rceil");
    EXPECT_EQ(printed(BlockNonfinite::torchao), "torchao");
    EXPECT_EQ(printed(ErrorKind::invalid_value), "invalid_value");
    EXPECT_EQ(printed(ErrorKind::unsupported), "unsupported");
    EXPECT_EQ(printed(ErrorKind::missing_file), "missing_file");
    EXPECT_EQ(printed(ErrorKind::unreadable_file), "unreadable_file");
    EXPECT_EQ(printed(ErrorKind::existing_file), "existing_file");
}

}  // namespace
