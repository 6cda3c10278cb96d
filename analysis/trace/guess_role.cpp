// A name is words between points, slashes and underscores; a word of a role may itself have
// underscores. Case does not matter. In the comments, \w is a letter, digit, underscore or part of
// a character outside of ASCII.
#include "analysis/trace/guess_role.h"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace apscope::detail {
namespace {

using Words = std::initializer_list<std::string_view>;

bool separates(char c) { return c == '.' || c == '_' || c == '/'; }
bool is_word(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || byte >= 0x80;
}

// The rest of a name, in lower case, from the beginning of a word.
struct At {
    std::string_view rest;

    bool ends(std::size_t i) const { return i == rest.size() || separates(rest[i]); }
    bool has(std::size_t i, std::string_view word) const {
        return i <= rest.size() && rest.substr(i).starts_with(word);
    }
    bool is_one_of(Words words) const {
        return std::ranges::any_of(words,
                                   [&](std::string_view w) { return has(0, w) && ends(w.size()); });
    }
    // The length of the run of \w from i.
    std::size_t run(std::size_t i) const {
        std::size_t end = i;
        while (end < rest.size() && is_word(rest[end])) ++end;
        return end - i;
    }
    // True if the text at i has the form word\w*.
    bool begins(std::size_t i, std::string_view word) const {
        if (!has(i, word)) return false;
        const std::size_t from = i + word.size();
        for (std::size_t n = 0; n <= run(from); ++n)
            if (ends(from + n)) return true;
        return false;
    }
    // True if the text begins with \w* and a word; accept(i) is true if the word lies at i.
    template <class Accept>
    bool closes(const Accept& accept) const {
        for (std::size_t i = 0; i <= run(0); ++i)
            if (accept(i)) return true;
        return false;
    }
};

bool is_norm(const At& at) {
    for (const std::string_view word :
         Words{"bn", "ln", "gn", "norm", "layernorm", "layer_norm", "batchnorm", "batch_norm",
               "groupnorm", "group_norm", "rmsnorm", "rms_norm"}) {
        if (!at.has(0, word)) continue;
        const std::size_t end = word.size();
        const bool underscore = at.has(end, "_");
        // After the word, and an underscore or none, come at most two of \w.
        for (std::size_t more = 0; more <= (underscore ? 3u : 2u) && more <= at.run(end); ++more)
            if (at.ends(end + more)) return true;
    }
    return false;
}

bool is_bias(const At& at) { return at.rest == "bias" || at.rest == "b"; }

bool is_embedding(const At& at) {
    if (at.is_one_of({"wte", "wpe"})) return true;
    return !at.has(0, "unembed") && at.closes([&](std::size_t i) {
        return (at.has(i, "emb") && at.ends(i + 3)) || (at.has(i, "embs") && at.ends(i + 4)) ||
               at.begins(i, "embed");
    });
}

bool is_head(const At& at) {
    return at.is_one_of({"head", "classifier", "logits", "output"}) || at.begins(0, "unembed") ||
           at.closes([&](std::size_t i) { return i > 0 && at.has(i, "_head") && at.ends(i + 5); });
}

bool is_attention(const At& at) {
    return at.is_one_of({"attn", "q_proj", "k_proj", "v_proj", "o_proj", "qkv", "c_attn"}) ||
           at.closes([&](std::size_t i) { return at.has(i, "attention") && at.ends(i + 9); });
}

struct ByName {
    std::string_view role;
    bool (*is)(const At&);
};
// The first entry whose function returns true is the role: a norm's bias is a parameter of the
// norm, a head's bias is a bias.
constexpr ByName by_name[] = {{"norm", is_norm},
                              {"bias", is_bias},
                              {"embedding", is_embedding},
                              {"head", is_head},
                              {"attention", is_attention}};

}  // namespace

std::string_view guess_role(std::string_view name, std::size_t dimensions) {
    std::string lower(name);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (const ByName& one : by_name) {
        for (std::size_t i = 0; i <= lower.size(); ++i) {
            if (i > 0 && !separates(lower[i - 1])) continue;
            if (one.is({std::string_view(lower).substr(i)})) return one.role;
        }
    }
    return dimensions >= 3 ? "conv" : dimensions == 2 ? "linear" : "other";
}

}  // namespace apscope::detail
