#!/usr/bin/env bash
# Counts words and forms that read badly, in comments, documents, and texts of programs, for each
# package. Fails if one is more frequent than ci/prose.counts says, and says which; so the numbers
# only fall.
#
#   ci/prose.sh            compares
#   ci/prose.sh --list     prints where each stands
#   ci/prose.sh --bless    writes the numbers, if none has grown
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8

# scan <package> <files...>: "package form file:line", a line for each.
scan() {
    local package=$1
    shift
    awk -v package="$package" '
        function found(form, line) { print package, form, FILENAME ":" line }
        function words(text, line) {
            text = tolower(text)
            if (text ~ /(^|[^a-z])whoever/) found("whoever", line)
            if (text ~ /(^|[^a-z])nobody/) found("nobody", line)
            if (text ~ /(^|[^a-z])(is|are|be|was|were) told([^a-z]|$)/) found("is-told", line)
            if (text ~ /(^|[^a-z])so many([^a-z]|$)/) found("so-many", line)
        }
        # The first sentence of an item, once its first paragraph is complete.
        function item() {
            if (first == "") return
            if (first ~ /^The same/) found("the-same", begun)
            if (first ~ /^(What|Who|Whose|Where|When|How|Why) /) found("what-who", begun)
            if (match(first, /[.:;?!]( |$)/) && substr(first, RSTART, 1) == "?") found("question", begun)
            first = ""
        }
        FNR == 1 { item(); before = "" }
        FILENAME ~ /[.]md$/ { words($0, FNR); next }
        {
            kind = ""
            if (match($0, /^[ \t]*\/\/[\/!]/)) kind = "item"
            else if (match($0, /^[ \t]*\/\//)) kind = "other"
            text = kind == "" ? "" : substr($0, RLENGTH + 1)
            sub(/^[ ]?/, "", text)
            if (kind != "") words(text, FNR)
            # What a program prints.
            rest = kind == "" ? $0 : ""
            while (match(rest, /"[^"]*"/)) {
                words(substr(rest, RSTART, RLENGTH), FNR)
                rest = substr(rest, RSTART + RLENGTH)
            }
            if (kind == "item" && before != "item") { first = text; begun = FNR; open = 1 }
            else if (kind == "item" && open && text != "") first = first " " text
            else { open = 0; item() }
            before = kind
        }
        END { item() }' "$@"
}
all() {
    local crate folder
    scan turnwise $(git ls-files 'src/*.rs')
    for crate in crates/*; do
        scan "${crate#crates/}" $(git ls-files "$crate/*.rs" "$crate/*.md")
    done
    for folder in tests benches examples fuzz loom-tests stress-tests; do
        scan "$folder" $(git ls-files "$folder/*.rs")
    done
    scan documents $(git ls-files './*.md' ':!crates' | sort)
}
# "package form number", of all packages and forms.
count() {
    awk '
        BEGIN {
            packages = split("turnwise turnwise-locks turnwise-redis turnwise-top tests benches " \
                "examples fuzz loom-tests stress-tests documents", package)
            forms = split("whoever nobody is-told so-many the-same what-who question", form)
        }
        { n[$1 " " $2]++ }
        END {
            for (p = 1; p <= packages; p++) for (f = 1; f <= forms; f++) {
                if (package[p] == "documents" && f > 4) continue
                print package[p], form[f], n[package[p] " " form[f]] + 0
            }
        }'
}
# Those that have grown.
grown() {
    awk 'NR == FNR { limit[$1 " " $2] = $3; next }
        $3 > limit[$1 " " $2] + 0 { print $1 ": " $2 " stands " $3 " times, " limit[$1 " " $2] + 0 " before"; bad = 1 }
        END { exit bad }' ci/prose.counts -
}

places=$(all)
numbers=$(count <<<"$places")
case ${1:-} in
--list) echo "$places" ;;
--bless)
    if [ -e ci/prose.counts ]; then grown <<<"$numbers"; fi
    echo "$numbers" >ci/prose.counts
    ;;
'')
    if ! grown <<<"$numbers"; then
        echo "rewrite them; ci/prose.sh --list says where each stands" >&2
        exit 1
    fi
    awk '{ n += $3 } END { print n " in all, none more than before" }' <<<"$numbers"
    ;;
*)
    echo "usage: $0 [--list | --bless]" >&2
    exit 2
    ;;
esac
