# A C++ header in which the list of a summary's figures is written out, for doxygen: a filter of
# docs/Doxyfile, run in the repository's root.
#   awk -f docs/tools/figure_fields.awk bindings/cpp/apscope/summary.h

BEGIN {
    list = "analysis/summary/summary_figures.inc"
    type["FIGURE"] = "double"
    type["COUNT"] = "std::int64_t"
}

# Prints the members of a SummaryRow, each below its documentation. An entry without documentation
# has that of the next one with some.
function print_fields(    line, entry, word, text, texts, says, fields, count, i) {
    while ((getline line < list) > 0) {
        entry = line ~ /^APSCOPE_/ ? line : entry line
        if (line !~ /"\)$/) continue
        split(entry, word, /[_(,]/)  # APSCOPE, the kind, and the words of the name
        if (word[2] in type) {
            sub(/^[A-Z_]+\(/, "", entry)
            fields[++count] = type[word[2]] " " substr(entry, 1, index(entry, ",") - 1) " = 0;"
        }
        texts = split(entry, text, "\"")
        says = ""
        for (i = 4; i < texts; i += 2) says = says text[i]  # text[2] is the unit
        if (says == "") continue
        for (i = 1; i <= count; i++) {
            print "    /// " toupper(substr(says, 1, 1)) substr(says, 2)
            print "    " fields[i]
        }
        count = 0
    }
}

/^#define APSCOPE_/ || /^ *\/\/ summary_figures\.inc / { next }
$0 == "#include \"" list "\"" { print_fields(); next }
{ print }
