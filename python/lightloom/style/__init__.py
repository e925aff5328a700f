"""One palette and one way to draw, for pages, PNGs and the controller's page.

`palette` says what colours mean, `figures` how matplotlib draws, `labels` where labels have room;
``page.css`` is every page's. Importing this package loads no plotting library.
"""
