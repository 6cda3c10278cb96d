// Data that calls of reduce() (emulation/allreduce/reduce.h) share: scratch rows, and the programs
// of topologies.
#pragma once

#include <vector>

#include "emulation/allreduce/topology.h"

namespace apscope::detail {

template <class Real>
class ReduceScratch {
public:
    // Returns the reduction_program() whose hops name rows; the reference is valid until the next
    // call.
    const ReductionProgram& program(const Topology& topology, int workers) {
        for (const Known& k : known_) {
            if (k.topology == topology && k.workers == workers) return k.program;
        }
        known_.push_back({topology, workers, reduction_program(topology, workers)});
        return known_.back().program;
    }
    // Space for at least `size` numbers, which are not initialised.
    Real* rows(std::size_t size) {
        if (rows_.size() < size) rows_.resize(size);
        return rows_.data();
    }
    std::vector<const Real*> read;  // pointers to the rows that a tile reads

private:
    struct Known {
        Topology topology;
        int workers;
        ReductionProgram program;
    };
    std::vector<Known> known_;
    std::vector<Real> rows_;
};

}  // namespace apscope::detail
