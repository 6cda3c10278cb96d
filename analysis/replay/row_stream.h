// RowStream: takes the rows of items, which threads finish in any order, and passes them on in the
// order of the table, some steps at a time, so a large table is never in memory as a whole.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <vector>

#include "analysis/replay/work_list.h"
#include "analysis/statistics/result_row.h"

namespace apscope::detail {

class RowStream {
public:
    using Take = std::function<void(std::vector<ResultRow>)>;

    // `take` receives the rows in order of step, tensor, scheme and topology, at least `batch` per
    // call except for the last. A thread whose item completes a step calls `take`, one thread at a
    // time; `take` may throw. `begun(t)` is called at once for the first step t that has items, and
    // for every later t when all rows of the steps before it were passed on.
    RowStream(const std::vector<WorkItem>& items, std::size_t steps, std::size_t batch, Take take,
              std::function<void(std::size_t)> begun);

    // Adds the rows of a finished item: those of its step, or of all steps in order.
    void add(const WorkItem& item, std::vector<std::vector<ResultRow>> rows);
    // Passes on the rest, once all items are added; `take` is called at least once.
    void end();

private:
    void gather(std::vector<std::vector<ResultRow>> parts);

    std::size_t batch_;
    Take take_;
    std::function<void(std::size_t)> begun_;
    std::mutex mutex_;
    std::vector<std::vector<std::vector<ResultRow>>> parts_;  // per step, in any order
    std::vector<std::size_t> left_;  // per step, the number of items whose rows are missing
    std::size_t next_ = 0;           // the first step that was not passed on
    bool giving_ = false;            // a thread passes on steps, or `take` threw
    std::vector<ResultRow> ready_;   // rows for the next call of `take`; only its thread uses them
    bool taken_ = false;             // `take` was called
};

}  // namespace apscope::detail
