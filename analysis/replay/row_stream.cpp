#include "analysis/replay/row_stream.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace apscope::detail {

RowStream::RowStream(const std::vector<WorkItem>& items, std::size_t steps, std::size_t batch,
                     Take take, std::function<void(std::size_t)> begun)
    : batch_(batch), take_(std::move(take)), begun_(std::move(begun)), parts_(steps), left_(steps) {
    for (const WorkItem& item : items) {
        if (item.step) ++left_[*item.step];
        else
            for (std::size_t& left : left_) ++left;
    }
    // A shard, or a part on a cluster, may have no item of the first steps.
    while (next_ < parts_.size() && left_[next_] == 0) ++next_;
    begun_(next_);
}

void RowStream::add(const WorkItem& item, std::vector<std::vector<ResultRow>> rows) {
    std::unique_lock lock(mutex_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t t = item.step.value_or(0) + i;
        parts_[t].push_back(std::move(rows[i]));
        --left_[t];
    }
    if (giving_) return;  // another thread is passing on steps and sees the new rows
    giving_ = true;
    while (next_ < parts_.size() && left_[next_] == 0) {
        std::vector<std::vector<ResultRow>> parts = std::move(parts_[next_]);
        lock.unlock();
        gather(std::move(parts));
        if (ready_.size() >= batch_) {
            taken_ = true;
            take_(std::exchange(ready_, {}));
        }
        lock.lock();
        begun_(++next_);
    }
    giving_ = false;
}

// Sorts pointers, because a row has hundreds of bytes. The rows of a scheme at a step may come from
// two items, which end in any order: the item of the step, and the item of all steps for the
// scheme's compositions with memory.
void RowStream::gather(std::vector<std::vector<ResultRow>> parts) {
    std::vector<ResultRow*> order;
    for (std::vector<ResultRow>& part : parts) {
        for (ResultRow& row : part) order.push_back(&row);
    }
    std::stable_sort(order.begin(), order.end(), [](const ResultRow* a, const ResultRow* b) {
        return std::tie(a->tensor_index, a->scheme_index, a->topology_index) <
               std::tie(b->tensor_index, b->scheme_index, b->topology_index);
    });
    ready_.reserve(ready_.size() + order.size());
    for (ResultRow* row : order) ready_.push_back(std::move(*row));
}

void RowStream::end() {
    if (!ready_.empty() || !taken_) take_(std::exchange(ready_, {}));
    taken_ = true;
}

}  // namespace apscope::detail
