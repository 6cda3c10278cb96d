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
    // needs: the bytes of each item. budget: the most bytes of all items that run at once; an item
    // that needs more runs alone.
    ItemQueue(std::vector<std::size_t> needs, std::size_t budget);

    // Waits until an item fits into the budget, and processes it in a workspace whose buffers the
    // thread uses meanwhile. Call it once per item, from any number of threads.
    void do_one(const std::function<void(std::size_t item, Workspace&)>& work);
    // Holds back item `end` and all later ones until a call with a larger `end`. The caller must
    // not wait for these items before it makes that call. Initially, and after an exception of
    // `work`, no item is held back.
    void open_until(std::size_t end);

private:
    std::size_t first_that_fits();
    std::unique_ptr<Workspace> workspace_for(std::size_t need);
    void end(std::size_t charged, std::unique_ptr<Workspace> workspace);

    std::vector<std::size_t> needs_;
    std::size_t budget_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<char> taken_;  // per item, 1 once a thread has it
    std::size_t first_ = 0;    // threads have all items before this one
    std::size_t open_;         // items before this one may begin
    bool failed_ = false;      // `work` threw
    std::size_t running_ = 0;  // number of items
    std::size_t used_ = 0;     // bytes of the running items, including their workspaces
    std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace apscope::detail
