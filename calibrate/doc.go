// Package calibrate fits a GPU profile to a user's own kernel measurements.
//
// # What is fitted
//
// The constants of the closed forms of package compute, class by class, by least
// squares of the logarithm of modelled over measured time, so that a kernel of 10
// us counts as much as one of 10 ms. The loss is Huber's (1964) with the
// threshold at 1.345 standard deviations of the residuals, estimated from their
// median, so that a few wrong measurements do not decide. It is minimised by
// Levenberg and Marquardt's method inside the constants' bounds, from the base
// profile's constants and from typical ones; the better end wins.
//
// # What is not
//
// Tile sizes are never fitted. A constant that the shapes do not determine keeps
// the base's value: with a weak prior of the width given in classes.go, noise of
// at least 1 %, and the other constants free, its posterior deviation is still
// above a quarter of the prior's. A class with fewer than two distinct shapes more
// than constants keeps all of the base.
//
// # How good it is
//
// Every shape is predicted once by a fit that has not seen it: the shapes are
// divided in five by a hash of their sizes, so that repetitions of one shape stay
// together and neither the order of the file nor chance matters. The constants
// come from all shapes.
//
// # Determinism
//
// The same table and base give the same bytes on every machine: +, -, *, /, square
// root and internal/detmath only, every product rounded before it is added.
package calibrate
