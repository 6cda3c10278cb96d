// A scheme: the processing of gradients between the workers' buffers and the reduced result. It is
// its parts, or a policy that assigns every tensor and step to one of several schemes (policy.h).
//
// The parts are the steps of docs/schemes.md (scheme_parts.h); a scheme's own file fills in those
// that make it what it is, from the encodings of emulation/schemes/codecs. One exchange
// (exchange_run.h):
//
//      intended = compensate(gradients)        memory      the values that the workers want to send
//      x        = forward(intended)            basis       the values that are encoded instead
//      theta    = select(x) or choose, draw    choice      parameters for all workers
//      sent_w   = encode(theta, x_w)           encoding    one message per worker
//      y        = reduce(theta, sent)          encoding    the sum over the workers
//      sent_w, y = inverse(...)                basis       back to the gradient's basis
//      update(...)                             memory      the state for the next step
//
// A part works on a piece of the rows, at a place. A scheme that is element-wise except for totals
// (sums, maxima), which select and measure read, gives the same bits for every division into
// pieces, and a replay needs no memory of the tensor's length for it. For any other scheme, the
// piece is the row. No scheme owns a loop over elements.
//
// Elements that are not finite bypass a scheme, unless it is made to see them: they count as 0 in
// it and leave it unchanged. A float grid rounds them as any other number, so a saturating one
// sends its largest; nothing is chosen from them. select() learns how many there are
// (TrainingStep).
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "emulation/schemes/policy.h"
#include "emulation/schemes/scheme_parts.h"
#include "emulation/schemes/transport.h"

namespace apscope::detail {

inline constexpr std::size_t whole_row = std::numeric_limits<std::size_t>::max();

struct SchemeParts {
    std::string grid;                          // column `format`: sign, levels:16, a float format
    std::string topology{reductions::gather};  // column `topology` of its own reduction
    Transport transport = {};                  // of its messages
    std::vector<std::string> needs = {};       // some of weights, full_batch, loss, learning_rate
    // Consecutive elements that no cut may part, or whole_row; totals of longer runs are measured.
    // Pieces begin at multiples of it and of sum_block (core/fixed_shape_sum.h).
    std::size_t run = 1;
    // The length of runs, counted from the start of a row: the encoding of an element depends only
    // on its run, in rows of one worker. 0: it depends on the complete row.
    std::size_t block = 0;
    // A bucket of tensors is full from this number of bytes on; blocks are counted through the
    // bucket, and encode() needs TrainingStep::bucket. 0: blocks are counted through a tensor.
    std::size_t bucket = 0;
    bool whole_shards = false;    // for a bucket: a result depends on the complete shards around it
    std::string defined_as = {};  // name of a caller's functions, which expect recorded gradients

    SchemeChoice choice = {};
    SchemeMemory memory = {};
    SchemeBasis basis = {};
    SchemeEncoding encoding = {};

    bool keeps_state() const {
        return memory.keeps.value_or(memory.compensates() || memory.updates());
    }
    bool draws() const;      // messages
    bool sums_draw() const;  // given the messages
    // In another basis an element of the message belongs to no single element of the gradient.
    bool encodes_special() const {
        return encoding.rounds_special && !basis.forward && !basis.inverse;
    }
    // True if it only scales and rounds a tensor.
    bool only_encodes() const {
        return !memory.compensates() && !memory.updates() && !basis.transforms() && !basis.inverse;
    }
    // True if it consists of a choice for all tensors and a float encoder: such schemes process a
    // block together (float_exchange.h).
    bool streams() const;
    // Adds the agreed statistics that it needs to those that others need.
    void add_to(WantedStatistics& wanted) const;
};

struct Scheme {
    std::string spec;    // canonical: parses back to this scheme
    std::string name;    // the registered name
    std::string family;  // its family: that of its definition, or of the scheme inside
    std::string format;  // format name as given in the spec; empty for grids that take keys only
    std::string note;    // written into every row
    std::map<std::string, std::string> keys;  // every key, including defaults
    SchemeParts parts;
    Policy policy;  // a policy's branches, which it has instead of parts

    bool is_policy() const { return !policy.branches.empty(); }
    // Throws std::invalid_argument for a policy, whose branches are schemes of their own.
    const SchemeParts& own_parts() const;
    // The same for a combinator, which sees one tensor at a time. Also throws for a scheme whose
    // scales or blocks apply to several tensors.
    const SchemeParts& inner_parts() const;
};

}  // namespace apscope::detail
