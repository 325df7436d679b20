"""One thin file a page: widgets in, one service called, its view model shown."""
