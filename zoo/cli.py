"""The `zoo` command. Each command's own module is imported when it runs."""

from __future__ import annotations

import sys

import typer

from zoo import __version__
from zoo.ocr import cli as ocr_cli
from zoo.ocr.weights import WEIGHTS
from zoo.weights import cli as weights_cli

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="The zoo.")
app.command("ocr", help="Read the text of pictures, folders and documents.")(ocr_cli.ocr)
app.add_typer(weights_cli.make(WEIGHTS), name="weights")
config_app = typer.Typer(no_args_is_help=True, help="Recipes.")
app.add_typer(config_app, name="config")


@config_app.command("schema")
def schema(recipe: str = typer.Argument("ocr", help="Whose recipe: ocr.")) -> None:
    """Print the JSON Schema of a recipe, for editors that complete and check YAML."""
    import json

    from zoo import config
    from zoo.ocr.recipe import Recipe

    recipes = {"ocr": Recipe}
    if recipe not in recipes:
        typer.echo(f"{recipe}: no such recipe; give one of {', '.join(recipes)}", err=True)
        raise typer.Exit(2)
    typer.echo(json.dumps(config.json_schema(recipes[recipe]), indent=2))


@app.command("version")
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """The console script."""
    try:
        app()
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our pipe has gone, as `head` does; what is left in the buffer has nowhere to go.
        sys.stderr.close()
        sys.exit(141)
