// Stored messages compared with the elements, in a replay on a GPU (row_step.h).
#pragma once

#include <cstdint>

#include "analysis/cuda/line_sums.h"
#include "analysis/cuda/piece.h"

namespace apscope::detail {

// A line's rows are the workers. Messages: BlockMessages or WideMessages.
template <class Messages>
struct MessageWireStep : LineSumsStep {
    const float* rows;
    Piece piece;
    int workers;
    Messages messages;
    bool moments;  // see WireStep

    APSCOPE_HD std::uint64_t count() const {
        return static_cast<std::uint64_t>(workers) * piece.blocks() * sum_lanes;
    }
    APSCOPE_HD RowLane begin(std::uint64_t item) const {
        const LaneItem at(item);
        const auto w = static_cast<std::uint64_t>(workers);
        const std::uint64_t worker = at.line % w;
        RowLane lane;
        piece.each(at.line / w, at.lane, [&](std::uint64_t i) {
            const float x = rows[worker * piece.count + i];
            const SentValue sent = messages.at(worker, i);
            messages.add_to(lane, x, sent);
            if (moments)
                lane.moments.add(x, sent.value, messages.moments(worker, i, x, sent.value));
        });
        return lane;
    }
};

}  // namespace apscope::detail
