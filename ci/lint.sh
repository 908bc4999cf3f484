#!/usr/bin/env bash
# Formatting, lints and documentation, without a warning.
#
#   ci/lint.sh              all of them
#   ci/lint.sh format       one of: format scripts clippy docs
set -euo pipefail
source "$(dirname "$0")/common.sh"

# rustfmt leaves comments as they are: none is wider than its code, but tables and addresses.
format() {
    cargo fmt --all --check
    if git ls-files -z '*.rs' | LC_ALL=C.UTF-8 xargs -0 grep -nE '^ *//.*$' |
        LC_ALL=C.UTF-8 grep -E '^[^:]*:[0-9]*:.{101,}$' | grep -vE 'https?://|//[/!]? *(\||cargo )'; then
        echo "error: comments of more than 100 columns" >&2
        exit 1
    fi
}

# The scripts themselves, by shellcheck where it is installed; the workflow runs all of them.
scripts() {
    local all script
    mapfile -t all < <(git ls-files '*.sh' .ci)
    for script in "${all[@]}"; do
        case $(head -n 1 "$script") in
        *bash*) bash -n "$script" ;;
        *) sh -n "$script" ;;
        esac
    done
    for script in ci/*.sh; do
        [ "$script" != ci/common.sh ] || continue
        if ! grep -qE "run: ${script#ci/}( |\$)" .github/workflows/ci.yml; then
            echo "error: no job of .github/workflows/ci.yml runs $script" >&2
            exit 1
        fi
    done
    if command -v shellcheck >/dev/null; then
        # Lists of arguments are split into words on purpose; variables of common.sh are used elsewhere.
        shellcheck --external-sources --source-path=SCRIPTDIR --severity=warning \
            --exclude=SC2034,SC2046,SC2086 ci/*.sh .ci/* loom-tests/*.sh stress-tests/*.sh fuzz/*.sh \
            benches/instructions/gate.sh
    else
        echo "shellcheck is not installed: only the syntax of ${#all[@]} scripts was checked"
    fi
}

clippy() {
    cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
}

# The guides are read on GitHub, too, so their pages link to docs.rs. Links to the packages whose
# documentation is built here have a target in it.
docs() {
    local link page bad=0
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features
    while read -r link; do
        page=$target/doc/${link%%#*}
        if ! [ -e "$page" ] || { [[ $link == *#* ]] && ! grep -qF "id=\"${link#*#}\"" "$page"; }; then
            echo "error: no page of the documentation is $link" >&2
            bad=1
        fi
    done < <(git ls-files -z '*.md' | xargs -0 grep -ohE 'https://docs.rs/turnwise[a-z-]*/latest/[^ )>]*' |
        sed 's|.*/latest/||' | grep -E '^turnwise(_locks)?/' | sort -u)
    if git grep -nE '\]\((crate|turnwise[a-z_]*)::' -- '*.md' >&2; then
        echo "error: links that only rustdoc knows" >&2
        bad=1
    fi
    return "$bad"
}

parts "format scripts clippy docs" "$@"
