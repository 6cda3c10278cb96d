#include "emulation/cuda/allreduce/stack_program.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace apscope::detail {

namespace {

// A worker's value, or the sum of two nodes.
struct Node {
    int worker = -1;
    int target = -1, source = -1;
    std::uint32_t hop = 0;
    bool starts = false;
    int values = 1;  // that are alive at once while it is computed, with a value below an `add` counted as none
};

class Writer {
public:
    Writer(const std::vector<Node>& nodes, std::vector<StackInstruction>& out) : nodes_(nodes), out_(out) {}

    // Depth first without recursion: a chain of hops is as deep as there are workers.
    void write(int root) {
        struct Visit {
            int node;
            bool done;
        };
        using Kind = StackInstruction::Kind;
        std::vector<Visit> visits{{root, false}};
        while (!visits.empty()) {
            const Visit visit = visits.back();
            visits.pop_back();
            const Node& n = node(visit.node);
            if (n.worker >= 0) {
                out_.push_back({Kind::push, n.worker, 0, 0, 0});
                continue;
            }
            const bool target_first = comes_first(n.target, n.source);
            const int first = target_first ? n.target : n.source, second = target_first ? n.source : n.target;
            const bool second_is_worker = node(second).worker >= 0;
            if (visit.done) {
                // After `add` the first operand is the top; after `join` the second.
                const bool top_is_target = second_is_worker == target_first;
                out_.push_back({second_is_worker ? Kind::add : Kind::join, second_is_worker ? node(second).worker : -1, n.hop, top_is_target, n.starts});
                continue;
            }
            visits.push_back({visit.node, true});
            if (!second_is_worker) visits.push_back({second, false});
            visits.push_back({first, false});
        }
    }

private:
    const Node& node(int i) const { return nodes_[static_cast<std::size_t>(i)]; }
    bool comes_first(int target, int source) const {
        if (node(target).worker >= 0 && node(source).worker < 0) return false;
        return node(target).values >= node(source).values || node(source).worker >= 0;
    }
    const std::vector<Node>& nodes_;
    std::vector<StackInstruction>& out_;
};

}  // namespace

std::vector<StackInstruction> stack_program(const ReductionProgram& program, int workers) {
    std::vector<Node> nodes;
    std::vector<int> row;  // the node that stands in a row now
    for (int w = 0; w < workers; ++w) {
        nodes.push_back({w});
        row.push_back(w);
    }
    std::uint32_t number = 0;
    for (const Hop& hop : program.hops) {
        Node sum;
        sum.target = row[static_cast<std::size_t>(hop.target)];
        sum.source = row[static_cast<std::size_t>(hop.source)];
        sum.hop = number;
        sum.starts = hop.starts_accumulator;
        const Node &a = nodes[static_cast<std::size_t>(sum.target)], &b = nodes[static_cast<std::size_t>(sum.source)];
        const bool chain = a.worker >= 0 || b.worker >= 0;
        sum.values = chain || a.values != b.values ? std::max(a.values, b.values) : a.values + 1;
        row[static_cast<std::size_t>(hop.target)] = static_cast<int>(nodes.size());
        nodes.push_back(sum);
        number += static_cast<std::uint32_t>(program.additions_per_hop);
    }
    const int root = row[static_cast<std::size_t>(program.result)];
    if (nodes[static_cast<std::size_t>(root)].values > reduce_stack) {
        throw std::invalid_argument(std::to_string(workers) + " workers are more than a GPU thread's stack of partial sums serves; use at most 65536");
    }
    std::vector<StackInstruction> instructions;
    Writer(nodes, instructions).write(root);
    return instructions;
}

}  // namespace apscope::detail
