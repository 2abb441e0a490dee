(* The masked product: claims D1, C2, C3, E3, F4 (one cut) and causality.
   Every statement holds over any commutative ring; matrices are mathcomp's 'M[R]_(m, n). *)
From mathcomp Require Import all_ssreflect all_algebra.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory.
Local Open Scope ring_scope.

Section Masked.
Variable R : comRingType.

Definition hadamard m n (A B : 'M[R]_(m, n)) : 'M[R]_(m, n) := \matrix_(i, j) (A i j * B i j).
Local Notation "A .* B" := (hadamard A B) (at level 40, left associativity).

(* Token j is seen from token i iff j <= i; g^(i-j) is its weight. g = 1: the 0-1 mask. *)
Definition decay (g : R) n : 'M[R]_n := \matrix_(i, j) (if (j <= i)%N then g ^+ (i - j) else 0).
Definition causal n : 'M[R]_n := \matrix_(i, j) ((j <= i)%N)%:R.

Lemma decay1 n : decay 1 n = causal n.
Proof. by apply/matrixP => i j; rewrite !mxE expr1n; case: leqP. Qed.

(* D1. (b c^T) o M = diag(b) M diag(c), for every M. *)
Theorem rank1_mask n (b c : 'cV[R]_n) (M : 'M[R]_n) :
  (b *m c^T) .* M = diag_mx b^T *m M *m diag_mx c^T.
Proof.
apply/matrixP => i j.
by rewrite mul_mx_diag mul_diag_mx !mxE big_ord1 !mxE mulrAC.
Qed.

Lemma hadamard_block m1 m2 n1 n2 (A B : 'M[R]_(m1, n1)) (A2 B2 : 'M[R]_(m1, n2))
    (A3 B3 : 'M[R]_(m2, n1)) (A4 B4 : 'M[R]_(m2, n2)) :
  block_mx A A2 A3 A4 .* block_mx B B2 B3 B4 = block_mx (A .* B) (A2 .* B2) (A3 .* B3) (A4 .* B4).
Proof.
apply/matrixP => i j; rewrite !mxE.
by case: (split i) => k; rewrite !mxE; case: (split j) => l; rewrite !mxE.
Qed.

(* The weights that carry a block across the cut: w1_i = g^i, w2_j = g^(n1-j). C3: no exponent is negative. *)
Definition w1 g n2 : 'cV[R]_n2 := \col_i g ^+ i.
Definition w2 g n1 : 'cV[R]_n1 := \col_j g ^+ (n1 - j).

Lemma decay_block g n1 n2 : decay g (n1 + n2) = block_mx (decay g n1) 0 (w1 g n2 *m (w2 g n1)^T) (decay g n2).
Proof.
apply/matrixP => i j; rewrite !mxE.
case: splitP => k -> ; rewrite !mxE; case: splitP => l ->; rewrite !mxE //.
- by rewrite leqNgt (leq_trans (ltn_ord k)) ?leq_addr.
- rewrite big_ord1 !mxE (leq_trans (ltnW (ltn_ord l))) ?leq_addr // -exprD.
  by congr (_ ^+ _); rewrite addnC addnBA ?(ltnW (ltn_ord l)) // addnC.
- by rewrite leq_add2l subnDl.
Qed.

(* C2 repaired, C3, E3, F4: the masked product of a sequence cut in two. The second half sees the first through the r x d
   state (diag(w2) C1)^T V1 alone. With g = 1 this is equation (6) of fleet and leet, and [O1; O3 + O2], not [[O1,0],[O3,O2]]. *)
Definition masked g n r d (B C : 'M[R]_(n, r)) (V : 'M[R]_(n, d)) : 'M[R]_(n, d) := ((B *m C^T) .* decay g n) *m V.

Theorem masked_cut g n1 n2 r d (B1 C1 : 'M[R]_(n1, r)) (B2 C2 : 'M[R]_(n2, r)) (V1 : 'M[R]_(n1, d)) (V2 : 'M[R]_(n2, d)) :
  masked g (col_mx B1 B2) (col_mx C1 C2) (col_mx V1 V2) =
  col_mx (masked g B1 C1 V1)
         (diag_mx (w1 g n2)^T *m B2 *m ((diag_mx (w2 g n1)^T *m C1)^T *m V1) + masked g B2 C2 V2).
Proof.
rewrite /masked tr_col_mx mul_col_row decay_block hadamard_block mul_block_col.
have -> : (B1 *m C2^T) .* (0 : 'M_(n1, n2)) = 0 by apply/matrixP => i j; rewrite !mxE mulr0.
rewrite mul0mx addr0; congr (col_mx _ (_ + _)).
rewrite mulmxA; congr (_ *m _).
apply/matrixP => i j; rewrite !mul_diag_mx !mxE big_ord1 !mxE mulr_suml.
by apply: eq_bigr => k _; rewrite !mxE mulrACA [B2 i k * _]mulrC [C1 j k * _]mulrC.
Qed.

(* Corollary, g = 1: O2 = B2 (C1^T V1) + (B2 C2^T o M) V2. *)
Corollary causal_cut n1 n2 r d (B1 C1 : 'M[R]_(n1, r)) (B2 C2 : 'M[R]_(n2, r)) (V1 : 'M[R]_(n1, d)) (V2 : 'M[R]_(n2, d)) :
  ((col_mx B1 B2 *m (col_mx C1 C2)^T) .* causal (n1 + n2)) *m col_mx V1 V2 =
  col_mx (((B1 *m C1^T) .* causal n1) *m V1) (B2 *m (C1^T *m V1) + ((B2 *m C2^T) .* causal n2) *m V2).
Proof.
have w1E : diag_mx (w1 1 n2)^T = 1%:M.
  by apply/matrixP => i j; rewrite !mxE expr1n.
have w2E : diag_mx (w2 1 n1)^T = 1%:M.
  by apply/matrixP => i j; rewrite !mxE expr1n.
by rewrite -!decay1; have := masked_cut 1 B1 C1 B2 C2 V1 V2; rewrite /masked w1E w2E !mul1mx.
Qed.

(* The unmasked future: row i of the masked product does not see V_j for j > i (causality, by the definition alone). *)
Theorem masked_causal g n r d (B C : 'M[R]_(n, r)) (V W : 'M[R]_(n, d)) (i : 'I_n) :
  (forall j : 'I_n, (j <= i)%N -> row j V = row j W) -> row i (masked g B C V) = row i (masked g B C W).
Proof.
move=> eqVW; apply/rowP => k; rewrite !mxE; apply: eq_bigr => j _; rewrite !mxE.
case: leqP => [le_ji|]; last by rewrite mulr0 !mul0r.
by have /rowP/(_ k) := eqVW j le_ji; rewrite !mxE => ->.
Qed.

End Masked.
