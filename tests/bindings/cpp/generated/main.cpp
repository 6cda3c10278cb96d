// Calls every public entry of the C++ library with drawn arguments. A call returns the right result
// or throws apscope::error; a wrong result, another exception, a crash and a call of minutes are
// findings, and the program goes on after them. A call depends on the seed and its number alone:
// `--seed S --first N --calls 1` repeats call N.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <stdexcept>

#include "calls.h"

namespace generated {
namespace {

namespace fs = std::filesystem;

constexpr unsigned minutes_of_a_call = 5;
constexpr std::size_t most_entries = 64, most_findings = 50;

struct Options {
    std::uint64_t seed = 1, first = 0, calls = UINT64_MAX, seconds = UINT64_MAX;
    std::string entry;  // the only entry that is called; empty: all
};

// Shared by the process that calls and the one that waits for it.
struct Progress {
    std::atomic<std::uint64_t> call, findings;
    std::atomic<std::uint64_t> called[most_entries], refused[most_entries];
};

fs::path place;

std::vector<Entry> entries(const std::string& only) {
    std::vector<Entry> all;
    for (const std::vector<Entry>* list : {&arrays, &sums, &words, &exchanges, &traces, &others})
        for (const Entry& entry : *list)
            if (only.empty() || entry.name == only) all.push_back(entry);
    if (all.empty() || all.size() > most_entries)
        throw std::invalid_argument("no entry is named '" + only + "'");
    return all;
}

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t call) {
    return Draw(seed ^ call << 20).word() + call;
}

void report(const Options& options, std::uint64_t call, const Entry& entry,
            const std::string& what) {
    std::printf("--seed %llu --first %llu --calls 1 (%s): %s\n",
                static_cast<unsigned long long>(options.seed),
                static_cast<unsigned long long>(call), std::string(entry.name).c_str(),
                what.c_str());
    std::fflush(stdout);
}

// Returns what is wrong with a call; empty if nothing is.
std::string finding_of(const Entry& entry, Draw& draw, std::atomic<std::uint64_t>& refusals) {
    try {
        entry.call(draw);
    } catch (const apscope::error& refusal) {
        ++refusals;
        const std::string_view sentence = refusal.what();
        if (sentence.empty() || sentence.find('\n') != std::string_view::npos)
            return "a refusal that is not one line: " + std::string(sentence);
    } catch (const Finding& finding) {
        return finding.sentence;
    } catch (const std::exception& other) {
        return "an exception that is not an apscope::error: " + std::string(other.what());
    }
    return "";
}

void make_calls(const Options& options, const std::vector<Entry>& all, std::uint64_t first,
                std::uint64_t end, std::chrono::steady_clock::time_point until,
                Progress& progress) {
    for (std::uint64_t call = first; call < end; ++call) {
        progress.call = call;
        if (std::chrono::steady_clock::now() >= until || progress.findings >= most_findings) return;
        Draw draw(seed_of(options.seed, call));
        const std::size_t at = draw.below(all.size());
        ++progress.called[at];
        alarm(60 * minutes_of_a_call);
        const std::string finding = finding_of(all[at], draw, progress.refused[at]);
        alarm(0);
        if (!finding.empty()) {
            ++progress.findings;
            report(options, call, all[at], finding);
        }
    }
    progress.call = end;
}

int run(const Options& options) {
    const std::vector<Entry> all = entries(options.entry);
    void* shared =
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::runtime_error("no memory for two processes");
    Progress& progress = *new (shared) Progress{};
    const std::uint64_t end =
        options.calls > UINT64_MAX - options.first ? UINT64_MAX : options.first + options.calls;
    const auto until = options.seconds == UINT64_MAX ? std::chrono::steady_clock::time_point::max()
                                                     : std::chrono::steady_clock::now() +
                                                           std::chrono::seconds(options.seconds);
    for (std::uint64_t first = options.first; first < end; first = progress.call + 1) {
        const pid_t child = fork();
        if (child == 0) {
            make_calls(options, all, first, end, until, progress);
            std::exit(0);  // with the leak sanitizer's look, if it is there
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child)
            throw std::runtime_error("no second process");
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
        ++progress.findings;
        const std::uint64_t call = progress.call;
        const std::string what = WIFSIGNALED(status)
                                     ? "ended by signal " + std::to_string(WTERMSIG(status))
                                     : "ended with " + std::to_string(WEXITSTATUS(status));
        Draw draw(seed_of(options.seed, call));
        report(options, call, all[draw.below(all.size())], what);
        if (progress.findings >= most_findings) break;
    }
    std::printf("%-24s %10s %10s\n", "entry", "calls", "refused");
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::uint64_t called = progress.called[i], refusals = progress.refused[i];
        std::printf("%-24s %10llu %10llu\n", std::string(all[i].name).c_str(),
                    static_cast<unsigned long long>(called),
                    static_cast<unsigned long long>(refusals));
        if (called >= 50 && refusals * 10 > called * 9) {  // drawn arguments that try nothing
            ++progress.findings;
            std::printf("%s was refused nearly always\n", std::string(all[i].name).c_str());
        }
    }
    const std::uint64_t findings = progress.findings;
    std::printf("%llu findings\n", static_cast<unsigned long long>(findings));
    return findings == 0 ? 0 : 1;
}

Options options_of(int count, char** words) {
    Options options;
    for (int i = 1; i < count; i += 2) {
        const std::string_view key = words[i];
        const std::string value = i + 1 < count ? words[i + 1] : "";
        if (key == "--entry") options.entry = value;
        else if (key == "--seed") options.seed = std::stoull(value);
        else if (key == "--first") options.first = std::stoull(value);
        else if (key == "--calls") options.calls = std::stoull(value);
        else if (key == "--seconds") options.seconds = std::stoull(value);
        else throw std::invalid_argument(std::string(key) + " is not an option");
    }
    return options;
}

}  // namespace

fs::path folder() {
    for (const fs::directory_entry& left : fs::directory_iterator(place))
        fs::remove_all(left.path());
    const fs::path made = place / "call";
    fs::create_directory(made);
    return made;
}

}  // namespace generated

int main(int count, char** words) {
    namespace fs = std::filesystem;
    try {
        const generated::Options options = generated::options_of(count, words);
        std::string name = (fs::temp_directory_path() / "apscope-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for files");
        generated::place = name;
        const int status = generated::run(options);
        fs::remove_all(name);
        return status;
    } catch (const std::exception& error) {
        std::fprintf(stderr,
                     "%s\nuse: [--seed N] [--first N] [--calls N] [--seconds N] [--entry NAME]\n",
                     error.what());
        return 2;
    }
}
