"""``lightloom completion``: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import typer

# Each asks this command with the line up to the cursor; if nothing fits, the word may be a file.
_BASH = """\
_lightloom() {
    COMPREPLY=()
    local found
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(
        "$1" completion bash --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    return 0
}
complete -o default -F _lightloom lightloom
"""
_ZSH = """\
#compdef lightloom
_lightloom() {
    local line="${(j: :)words[1,CURRENT-1]} $PREFIX" found
    local -a open whole
    for found in ${(f)"$($words[1] completion zsh --line "$line" 2>/dev/null)"}; do
        if [[ $found == *=:* ]]; then open+=("$found"); else whole+=("$found"); fi
    done
    if (( ! $#open && ! $#whole )); then _files; return; fi
    (( $#open )) && _describe -t values value open -S ''
    (( $#whole )) && _describe -t values value whole
}
if [[ $funcstack[1] == _lightloom ]]; then _lightloom "$@"; else compdef _lightloom lightloom; fi
"""
_FISH = """\
function __lightloom
    set -l words (commandline -opc)
    set -l found ($words[1] completion fish --line (commandline -cp | string collect) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c lightloom -f -a '(__lightloom)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}

app = typer.Typer()


@app.command()
def completion(
    shell: str = typer.Argument(..., metavar="bash|zsh|fish", help="The shell to complete in."),
    line: str | None = typer.Option(
        None, "--line", help="A line up to the cursor: print what its last word may become."
    ),
) -> None:
    """Print a script for the shell: it completes commands, options, presets, traces, keys of --set.

    A shell reads it when it starts, or when the command is first completed. Anew after an update
    it need not be written: it asks the command that is installed.

    Example: lightloom completion bash

    Example, in bash for good: lightloom completion bash
    > ~/.local/share/bash-completion/completions/lightloom

    Example, in zsh, from a directory of fpath: lightloom completion zsh > ~/.zfunc/_lightloom

    Example, in fish: lightloom completion fish > ~/.config/fish/completions/lightloom.fish
    """
    from lightloom.errors import InputError
    from lightloom.presets import unknown

    if shell not in SCRIPTS:
        raise InputError(f"{shell}: no such shell{unknown(shell, tuple(SCRIPTS))}")
    if line is None:
        print(SCRIPTS[shell], end="")
        return
    from lightloom.cli.candidates import candidates

    # bash replaces only what follows the last of these.
    start = max(line.rpartition(" ")[2].rfind(mark) for mark in "=:") + 1 if shell == "bash" else 0
    for word, about in candidates(line):
        if shell == "bash":
            print(word[start:])
        elif shell == "zsh":
            print(f"{word.replace(':', chr(92) + ':')}:{about}")
        else:
            print(f"{word}\t{about}" if about else word)
