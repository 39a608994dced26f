#!/bin/sh
exec python -m house.train
