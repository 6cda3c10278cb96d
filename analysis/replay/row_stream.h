// RowStream: the rows of items that threads finish in any order, given out in the order of the
// table, some steps at a time, so that a large table is never held whole.
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

    // `take` gets rows by step, tensor and scheme, at least `batch` at a time but for the last; it
    // is called by the thread whose item completes a step, by one at a time, and may throw.
    // `begun(t)` is called once all rows of the steps before t were given out.
    RowStream(const std::vector<WorkItem>& items, std::size_t steps, std::size_t batch, Take take,
              std::function<void(std::size_t)> begun);

    // The rows of a finished item: of its step, or of all steps in order.
    void add(const WorkItem& item, std::vector<std::vector<ResultRow>> rows);
    // Gives out the rest, once all items are added; `take` is called at least once.
    void end();

private:
    void gather(std::vector<std::vector<ResultRow>> parts);

    std::size_t batch_;
    Take take_;
    std::function<void(std::size_t)> begun_;
    std::mutex mutex_;
    std::vector<std::vector<std::vector<ResultRow>>> parts_;  // of each step, in any order
    std::vector<std::size_t> left_;  // items whose rows of the step are not there
    std::size_t next_ = 0;  // the first step that was not given out
    bool giving_ = false;  // a thread gives out steps, or failed to
    std::vector<ResultRow> ready_;  // of that thread
    bool taken_ = false;  // `take` was called
};

}  // namespace apscope::detail
