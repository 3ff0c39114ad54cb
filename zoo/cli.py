"""The `zoo` command. Each command's own module is imported when it runs."""

from __future__ import annotations

import sys

import typer

from zoo import __version__
from zoo.ocr import augment_cli, data_cli, show_cli
from zoo.ocr import cli as ocr_cli
from zoo.ocr.weights import WEIGHTS
from zoo.weights import cli as weights_cli

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="The zoo.")
ocr_app = typer.Typer(cls=ocr_cli.ReadByDefault, help="Read the text of pictures, folders and documents; label DIR.")
ocr_app.command("read")(ocr_cli.ocr)
ocr_app.command("label")(ocr_cli.label)
app.add_typer(ocr_app, name="ocr")
app.add_typer(weights_cli.make(WEIGHTS), name="weights")
config_app = typer.Typer(no_args_is_help=True, help="Recipes.")
app.add_typer(config_app, name="config")

data_app = typer.Typer(no_args_is_help=True, help="Labels and training data.")
app.add_typer(data_app, name="data")
check_app = typer.Typer(no_args_is_help=True, help="Check labels: what is bad and where, and a cleaned list.")
check_app.command("ocr")(data_cli.check)
data_app.add_typer(check_app, name="check")
convert_app = typer.Typer(no_args_is_help=True, help="Write labels in another format.")
convert_app.command("ocr")(data_cli.convert)
data_app.add_typer(convert_app, name="convert")
show_app = typer.Typer(no_args_is_help=True, help="Show labels, and what training does to them, as a picture.")
show_app.command("ocr")(show_cli.show)
data_app.add_typer(show_app, name="show")
data_app.command("synth")(augment_cli.synth)


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
