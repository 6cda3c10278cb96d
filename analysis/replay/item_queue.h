// ItemQueue: gives items to threads in their order, but for those whose memory does not fit beside
// what runs already.
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
    // What each item needs, in bytes, and what all that run at once may have together. An item that
    // needs more than that runs alone.
    ItemQueue(std::vector<std::size_t> needs, std::size_t budget);

    // Takes one item, waits for its memory, and does it in a workspace, whose buffers are the
    // thread's meanwhile. To be called once an item, by any number of threads.
    void do_one(const std::function<void(std::size_t item, Workspace&)>& work);
    // Items from this one on wait for another such call, which must come without them. All are open
    // at first, and after an exception of `work`.
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
    std::size_t first_ = 0;    // all before are taken
    std::size_t open_;         // items before this one may begin
    bool failed_ = false;
    std::size_t running_ = 0;  // items
    std::size_t used_ = 0;     // by them, what their workspaces held before included
    std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace apscope::detail
