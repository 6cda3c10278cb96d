// A scheme processes gradients between the workers' buffers and the reduced result. A scheme
// consists of parts, or is a policy that assigns every tensor and step to one of several schemes
// (policy.h).
//
// The parts are the steps of docs/schemes.md (scheme_parts.h). A scheme's file fills in the parts
// that the scheme needs, with the encodings of emulation/schemes/codecs. One exchange
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
// Each part is called with one piece of the rows, and the piece's place. If a scheme works element
// by element, except for totals (sums, maxima) that select and measure compute, its results do not
// depend on the division into pieces, and a replay needs no buffer of the tensor's length. For any
// other scheme, the piece is the complete row. The caller of the parts has the loop over pieces,
// not the scheme.
//
// Elements that are not finite bypass a scheme unless `sees_special` is set: the scheme gets 0 in
// their place, and they are sent unchanged. With `rounds_special`, encode() gets them and rounds
// them like other numbers, so a saturating grid sends its largest number; the scale is chosen
// without them. select() gets their number (TrainingStep::nonfinite).
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

// The value of SchemeParts::run for a scheme whose parts need complete rows.
inline constexpr std::size_t whole_row = std::numeric_limits<std::size_t>::max();

struct SchemeParts {
    std::string grid;  // the column `format` of results, such as sign, levels:16 or a float format
    std::string topology{reductions::gather};  // the column `topology` of results, if the scheme
                                               // has its own reduction
    Transport transport = {};                  // cost properties of the scheme's messages
    // Inputs besides gradients: some of weights, full_batch, loss, learning_rate.
    std::vector<std::string> needs = {};
    // The number of consecutive elements that must be in one piece, or whole_row. Totals over
    // longer runs come from measure(). Pieces begin at multiples of `run` and of sum_block
    // (core/fixed_shape_sum.h).
    std::size_t run = 1;
    // The length of blocks of the row, counted from its start, if the encoding of an element, in a
    // step with one worker, depends only on the elements of its block. 0: the encoding depends on
    // the complete row.
    std::size_t block = 0;
    // The size in bytes at which a bucket is full, if blocks extend across the tensors of a bucket;
    // encode() then needs TrainingStep::bucket. 0: every tensor begins a new block.
    std::size_t bucket = 0;
    // True if, with a bucket, a tensor's result depends on all elements of the shards that the
    // tensor overlaps.
    bool whole_shards = false;
    // The name of the scheme if its parts are functions of the caller; otherwise empty. Such
    // functions get only gradients of a run; the estimate of costs does not call them.
    std::string defined_as = {};

    SchemeChoice choice = {};
    SchemeMemory memory = {};
    SchemeBasis basis = {};
    SchemeEncoding encoding = {};

    bool keeps_state() const {
        return memory.keeps.value_or(memory.compensates() || memory.updates());
    }
    bool draws() const;      // true: messages depend on random words
    bool sums_draw() const;  // true: the sum of given messages depends on random words
    // True if encode() gets elements that are not finite. False in another basis, because there an
    // element of the message belongs to no single element of the gradient.
    bool encodes_special() const {
        return encoding.rounds_special && !basis.forward && !basis.inverse;
    }
    // True if the scheme only scales and rounds a tensor.
    bool only_encodes() const {
        return !memory.compensates() && !memory.updates() && !basis.transforms() && !basis.inverse;
    }
    // True if the scheme consists of a choice for all tensors and a float encoder. A replay runs
    // all such schemes together, block by block (float_exchange.h).
    bool streams() const;
    // Sets in `needed` the statistics that this scheme needs.
    void add_to(NeededStatistics& needed) const;
};

struct Scheme {
    std::string spec;    // canonical spec, from which parse_scheme() makes this scheme
    std::string name;    // the registered name
    std::string family;  // family of the definition or, for a combinator, of the inner scheme
    std::string format;  // format name as given in the spec; empty for grids that take keys only
    std::string note;    // written into every result row
    std::map<std::string, std::string> keys;  // value of every key, including defaults
    SchemeParts parts;
    Policy policy;  // branches of a policy, used instead of `parts`; empty for other schemes

    bool is_policy() const { return !policy.branches.empty(); }
    // The parts. Throws std::invalid_argument for a policy, because only its branches have parts.
    const SchemeParts& own_parts() const;
    // The parts, for a combinator around this scheme. Also throws for a scheme whose scales or
    // blocks apply to several tensors, because a combinator gets one tensor at a time.
    const SchemeParts& inner_parts() const;
};

}  // namespace apscope::detail
