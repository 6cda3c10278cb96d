// ItemQueue: gives items to threads in order, and delays an item until its memory and that of the
// running items fit into the budget.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "analysis/replay/item_rows.h"

namespace apscope::detail {

class ItemQueue {
public:
    // The bytes that each item needs, and the limit for all items that run at once. An item that
    // needs more runs alone.
    ItemQueue(std::vector<std::size_t> needs, std::size_t budget);

    // Takes one item, waits for its memory, and processes it in a workspace, whose buffers the
    // thread uses meanwhile. Call it once per item, from any number of threads.
    void do_one(const std::function<void(std::size_t item, Workspace&)>& work);
    // Items from `end` on wait until a later call names a larger `end`; that call must not depend
    // on them. Initially, and after an exception of `work`, no item waits for such a call.
    void open_until(std::size_t end);

private:
    std::size_t first_that_fits();
    std::unique_ptr<Workspace> workspace_for(std::size_t need);
    void end(std::size_t charged, std::unique_ptr<Workspace> workspace);

    std::vector<std::size_t> needs_;
    std::size_t budget_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<char> taken_;
    std::size_t first_ = 0;  // all items before it are taken
    std::size_t open_;       // items before this one may begin
    bool failed_ = false;
    std::size_t running_ = 0;  // items
    std::size_t used_ = 0;     // bytes of the running items, including their workspaces
    std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace apscope::detail
