// Reduction programs compared with their definitions, written as formulas.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "emulation/allreduce/topology.h"

using namespace apscope;
using namespace apscope::detail;

namespace {

// The program as text over ranks: "((0+1)+2)", a row that is rounded by itself as "[0]", and a sum
// in a wider format as "{0+1}".
std::string formula(const char* name, int workers, int chunk = 0) {
    std::vector<std::string> rows;
    for (int w = 0; w < workers; ++w) rows.push_back(std::to_string(w));
    const ReductionProgram program = reduction_program(parse_topology(name), workers, chunk);
    for (const Hop& hop : program.hops) {
        std::string& target = rows[static_cast<std::size_t>(hop.target)];
        if (hop.source < 0) {
            target = "[" + target + "]";
            continue;
        }
        const std::string sum = target + "+" + rows[static_cast<std::size_t>(hop.source)];
        target = hop.wide ? "{" + sum + "}" : "(" + sum + ")";
    }
    return rows[static_cast<std::size_t>(program.result)];
}

}  // namespace

TEST(Topology, OrdersAreTheDefinitions) {
    EXPECT_EQ(formula("sequential", 4), "(((0+1)+2)+3)");
    EXPECT_EQ(formula("sequential", 1), "0");
    EXPECT_EQ(formula("tree", 4), "((0+1)+(2+3))");
    EXPECT_EQ(formula("tree", 5), "(((0+1)+(2+3))+4)");
    EXPECT_EQ(formula("tree", 7), "(((0+1)+(2+3))+((4+5)+6))");
    EXPECT_EQ(formula("hierarchical:2", 5), "(((0+1)+(2+3))+4)");
    EXPECT_EQ(formula("hierarchical:3", 8), "((((0+1)+2)+((3+4)+5))+(6+7))");
    EXPECT_EQ(formula("hierarchical:9", 3), "((0+1)+2)");
    // Chunk c starts at rank c + 1.
    EXPECT_EQ(formula("ring", 4, 0), "(((1+2)+3)+0)");
    EXPECT_EQ(formula("ring", 4, 3), "(((0+1)+2)+3)");
    EXPECT_EQ(formula("ring", 1, 0), "0");
    EXPECT_EQ(formula("nccl:ring", 4, 0), "(((1+2)+3)+0)");
    EXPECT_EQ(formula("butterfly", 1), "0");
    EXPECT_EQ(formula("butterfly", 4), "((0+2)+(1+3))");
    EXPECT_EQ(formula("butterfly", 6), "(((1+0)+4)+((3+2)+5))");
    EXPECT_EQ(formula("fp32_accumulate", 1), "0");
    EXPECT_EQ(formula("fp32_accumulate", 3), "[{{0+1}+2}]");
    EXPECT_EQ(formula("nccl:symmetric", 2), "[{0+1}]");
    // Chunk c belongs to rank c, and row s is rank c - s.
    EXPECT_EQ(formula("pat", 1, 0), "0");
    EXPECT_EQ(formula("pat", 2, 0), "{0+[1]}");
    EXPECT_EQ(formula("pat", 3, 2), "{{2+[0]}+[1]}");
    EXPECT_EQ(formula("pat", 4, 0), "{{0+(2+[1])}+[3]}");
    EXPECT_EQ(formula("pat", 8, 0), "{{{0+(6+[5])}+((4+(2+[1]))+[3])}+[7]}");
    // The second tree is the first with the ranks reversed, or increased by one.
    EXPECT_EQ(formula("nccl:tree", 1, 0), "0");
    EXPECT_EQ(formula("nccl:tree", 2, 1), "(1+0)");
    EXPECT_EQ(formula("nccl:tree", 4, 0), "(0+((2+1)+3))");
    EXPECT_EQ(formula("nccl:tree", 4, 1), "(3+((1+2)+0))");
    EXPECT_EQ(formula("nccl:tree", 5, 0), "(0+(4+((2+1)+3)))");
    EXPECT_EQ(formula("nccl:tree", 3, 1), "(1+(0+2))");
}

TEST(Topology, RingChunksPartitionTheElements) {
    const Topology ring = parse_topology("ring");
    for (const int workers : {1, 2, 3, 8, 64}) {
        for (const std::size_t n : {0ul, 1ul, 5ul, 64ul, 1000ul, 999999999999ul}) {
            for (int c = 0; c < workers; ++c) {
                const auto exact = static_cast<std::size_t>(static_cast<unsigned __int128>(c) * n /
                                                            static_cast<unsigned>(workers));
                EXPECT_EQ(chunk_begin(ring, workers, c, n), exact);
            }
            EXPECT_EQ(chunk_begin(ring, workers, workers, n), n);
        }
    }
}

TEST(Topology, NamesRoundTripAndWrongOnesAreRefused) {
    for (std::string name : topology_names()) {
        if (const std::size_t g = name.find(":G"); g != name.npos) name.replace(g, 2, ":16");
        EXPECT_EQ(parse_topology(name).name(), name);
    }
    for (const char* name :
         {"hierarchical:8(nccl:ring@e5m2,two_phase@e4m3,sum=bf16,phase2=(aps:e5m2,rule=tight))",
          "hierarchical:2(sequential,reduce_scatter@mxfp4)", "nccl:ring,channels=64",
          "hierarchical:3(nccl:tree,channels=2,protocol=ll128,torch:two_shot@bf16)"})
        EXPECT_EQ(parse_topology(name).name(), name);
    EXPECT_EQ(parse_topology("hierarchical:08(tree@float8_e5m2,tree)").name(),
              "hierarchical:8(tree@e5m2,tree)");
    for (const char* name : {"rings",
                             "",
                             "hierarchical",
                             "hierarchical:",
                             "hierarchical:0",
                             "hierarchical:x",
                             "ring+kahan",
                             "tree+kahan",
                             "exact+kahan",
                             "gather",
                             "hierarchical4",
                             "hierarchical:4 ",
                             "tree:4",
                             "exact:4",
                             "nccl",
                             "nccl:",
                             "nccl:rings",
                             "nccl:ring:4",
                             "pat:4",
                             "butterfly+kahan",
                             "nccl:ring+kahan",
                             "nccl:ring,channels=0",
                             "nccl:ring,protocol=ll",
                             "torch:one_shot,channels=2",
                             "hierarchical:2(ring)",
                             "hierarchical:2(ring,tree",
                             "hierarchical:2(ring,tree)+kahan",
                             "hierarchical(ring,tree)",
                             "hierarchical:2(ring,hierarchical:2)",
                             "hierarchical:2(ring@e99x,tree)",
                             "NCCL:ring"}) {
        EXPECT_THROW(parse_topology(name), std::invalid_argument) << name;
    }
}

TEST(Topology, AnUnknownNameGetsTheNearestOne) {
    const auto told = [](std::string_view name) -> std::string {
        try {
            parse_topology(name);
        } catch (const std::invalid_argument& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_EQ(told("two-phase"), "unknown topology 'two-phase'; did you mean two_phase?");
    EXPECT_EQ(told("two_pahse,sum=exact"),
              "unknown topology 'two_pahse,sum=exact'; did you mean two_phase?");
    EXPECT_EQ(told("nccl:rign"), "unknown topology 'nccl:rign'; did you mean nccl:ring?");
    EXPECT_TRUE(told("all_reduce").starts_with("unknown topology 'all_reduce'; use exact, "));
}
